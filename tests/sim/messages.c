/* See messages.h. */
#include "tests/sim/messages.h"

#include <stdio.h>

const char *sim_message_name(enum coxi_message_kind kind)
{
    static const char *const names[] = {
        "?",         "Hello",      "Refuse",     "Status",       "Claim",
        "Release",   "Create",     "Watermark",  "Snapshot",     "SnapshotDone",
        "Count",     "Counts",     "Pull",       "Pulled",       "Commit",
        "Committed", "Layout",     "Module",     "ModuleLoaded", "Dispatch",
        "Recall",    "Done",       "Void",       "Voided",       "Crashed",
        "Leaving",   "WantData",   "Resource",   "ResourceMade", "ResourceDrop",
        "Restore",   "ResultDrop", "ResultWant", "Result",       "Load",
        "Describe",  "Reach",      "Probe",      "FileRead",     "FileBytes",
        "TraceAsk",  "TraceTold",  "Memory",     "Exchange",     "Exchanged"};
    return (size_t)kind < sizeof(names) / sizeof(*names) ? names[kind] : "?";
}

void sim_message_tell(const struct coxi_message *m, char *ret, size_t room)
{
    size_t used = 0;
    ret[0] = '\0';
    if (m->kind == COXI_DISPATCH) {
        for (size_t i = 0; i < m->dispatch.n_closures && used < room; i++) {
            used +=
                (size_t)snprintf(ret + used, room - used, " %llu/%u",
                                 (unsigned long long)m->dispatch.closures[i].closure,
                                 m->dispatch.closures[i].attempt);
        }
    } else if (m->kind == COXI_DONE) {
        for (size_t i = 0; i < m->done.n_closures && used < room; i++) {
            used +=
                (size_t)snprintf(ret + used, room - used, " %llu/%u=%d",
                                 (unsigned long long)m->done.closures[i].closure,
                                 m->done.closures[i].attempt, m->done.closures[i].code);
        }
    } else if (m->kind == COXI_COMMIT) {
        bool is_end =
            m->commit.n_updates > 0 && m->commit.updates[0].op == COXI_OP_ROUND;
        used =
            (size_t)snprintf(ret, room, " %llu/%u segment %u%s of incarnation %04llx",
                             (unsigned long long)m->commit.closure, m->commit.attempt,
                             m->commit.segment, m->commit.last ? " (last)" : "",
                             (unsigned long long)m->commit.incarnation & 0xffff);
        if (m->commit.round != 0) {
            (void)snprintf(ret + used, room - used, ", in round %llu",
                           (unsigned long long)m->commit.round);
        } else if (is_end) {
            (void)snprintf(ret + used, room - used, ", the end of a round");
        }
    } else if (m->kind == COXI_VOID) {
        (void)snprintf(ret, room, " %llu up to attempt %u",
                       (unsigned long long)m->void_.closure, m->void_.attempt);
    } else if (m->kind == COXI_WATERMARK) {
        (void)snprintf(ret, room, " %llu", (unsigned long long)m->watermark.watermark);
    } else if (m->kind == COXI_STATUS || m->kind == COXI_COMMITTED ||
               m->kind == COXI_PULLED) {
        (void)snprintf(ret, room, " %d%s %s", m->status.code,
                       m->status.duplicate ? " duplicate" : "", m->status.message);
    }
}
