/* The user as whom a daemon runs. Main thread, before others start. */
#ifndef COXI_NET_USER_H
#define COXI_NET_USER_H

/*
 * Makes this process run as `user`, a name or a number, for good: with that user's
 * groups, without root's capabilities, and unable to become root again. `user` NULL, or
 * the user as whom it runs already: nothing changes; for root it must be named, though,
 * because a daemon stays root only if it is told to. COX_EINVAL: there is no such user,
 * or only root can change to it; COX_EIO: the system refuses.
 */
int coxi_user_become(const char *user);

#endif
