"""The rules of docs/exactly-once.md, each taken out of the real code: name, what is missing, and
changes of functions: (folder, function, old text of its body or None for its beginning, new text).
COVERS are no rules: each takes out other code that prevents the harm when a rule of COVERED is out."""

BEGIN = None
MUTATIONS = {
    "1": ("a ps and a worker compare only the run", [
        ("net", "coxi_session_equal", BEGIN, "return a->run == b->run;")]),
    "2": ("watermarks, snapshots, voids, restores are not fenced; nobody is told", [
        ("ps", "coxi_store_fenced", BEGIN, "return 0;"),
        ("ps", "tell_replaced", BEGIN, "return;")]),
    "3a": ("a ps accepts requests that are meant for another incarnation", [
        ("ps", "coxi_store_meant", BEGIN, "return 0;")]),
    "3b": ("acknowledgements of an older incarnation count", [
        ("coordinator", "coxi_ps_is_stale", BEGIN, "return false;")]),
    "4": ("an answer matches by closure alone", [
        ("coordinator", "find_ended", "closure->seat == seat && closure->attempts.current == head->attempt",
         "closure->seat != NULL"),
        ("coordinator", "find_ended", "coxi_seat_let_go(seat, closure)",
         "coxi_seat_let_go(closure->seat, closure)")]),
    "5": ("workers learn of a ps that is not restored yet, and it answers", [
        ("ps", "coxi_store_ready", "r == 0 && store->unready", "0"),
        ("coordinator", "bring_back", "r = refill(rec, p, psc);",
         "struct change early = {p, psc, true}; coxi_recovery_on_loop(rec, exchange, &early);"
         "r = refill(rec, p, psc);")]),
    "6": ("the applied set holds closures, not segments", [
        ("ps/applied.c", "look", "coxi_marks_find(applied->marks, entry->mark, commit->segment, &there)",
         "coxi_marks_find(applied->marks, entry->mark, 0, &there)"),
        ("ps/applied.c", "look", "return compare(commit, &there);", "return COX_EEXIST;")]),
    "7": ("the watermark passes a closure that a ps lacks", [
        ("coordinator", "coxi_ps_watermark", BEGIN, "return watermark;")]),
    "8a": ("a void refuses the closure for ever", [
        ("ps", "coxi_applied_void", "attempt > entry->fence ? attempt : entry->fence", "UINT32_MAX")]),
    "8b": ("voids are not repeated when a ps came back", [
        ("coordinator", "is_outdated", BEGIN, "return false;")]),
    "8c": ("a ps that came back is not told which closures must never apply", [
        ("coordinator", "bar", BEGIN, "return 0;")]),
    "9": ("closures with several attempts settle without being closed", [
        ("coordinator", "coxi_closure_end", "!closure->effect.uncertain ||", "1 ||")]),
    "10": ("the manifest's window is taken before the ps have cut", [
        ("coordinator", "write_checkpoint", "    if (r == 0) {\n        r = coxi_backlog_collect",
         "    if (0) {\n        r = coxi_backlog_collect"),
        ("coordinator", "write_checkpoint", "r = write_shards(c, draft->path, manifest);",
         "r = coxi_backlog_collect(c, draft->path, mark, manifest);"
         "if (r == 0) { r = write_shards(c, draft->path, manifest); }")]),
    "11a": ("a late snapshot request writes", [
        ("ps", "coxi_store_snapshot_to", "same_client && snapshot->number < last->number", "0"),
        ("ps", "coxi_store_snapshot_to", "!same_client || snapshot->number > last->number", "1")]),
    "11b": ("a checkpoint during which a ps was lost is kept", [
        ("coordinator", "check_losses", BEGIN, "return 0;"),
        ("coordinator", "coxi_recovery_base", "r == 0 && rec->set->n_losses == mark->n_losses", "r == 0")]),
    "12": ("marks of changed rows are dropped at the cut, before it is durable", [
        ("ps", "cut_tracks", "coxi_table_track_cut(track, last_counts)", "coxi_table_track_cut(track, true)"),
        ("ps", "cut_tracks", "coxi_dense_track_cut(part->dense, last_counts)",
         "coxi_dense_track_cut(part->dense, true)")]),
    "13": ("the log drops what is done, even if the checkpoint lacks it", [
        ("coordinator", "coxi_recovery_base", "coxi_replay_log_forget(c->replay_log, mark->log)",
         "coxi_replay_log_forget(c->replay_log, coxi_replay_log_mark(c->replay_log))")]),
    "14": ("a lost ps is not restored from the checkpoint at which the log starts", [
        ("coordinator", "coxi_recovery_base", "rec->base = base;\n        base = old;",
         "if (old.path == NULL) { rec->base = base; base = old; }")]),
    "15": ("the failure of a replay is not reported", [
        ("coordinator", "coxi_recovery_replayed", "closure->state != COXI_DONE_OK && !closure->rerun->abandoned &&\n        !c->phase.closing", "0")]),
    "16": ("cox_join and reads do not wait for the replay", [
        ("coordinator", "is_all_done", "bool done = c->life.n_unsettled == 0 &&",
         "return c->life.n_unsettled == 0; bool done ="),
        ("coordinator", "begin_read", "return coxi_ps_wait(c);", "return 0;"),
        ("coordinator", "read_again", BEGIN, "return coxi_ps_again(c, code);")]),
    "17": ("a full log drops finished entries", [
        ("coordinator", "is_full_of_ids", BEGIN,
         "if (coxi_replay_log_is_full(c->replay_log, c->ids.next)) { coxi_replay_log_forget(c->replay_log, "
         "coxi_replay_log_mark(c->replay_log)); } return c->ids.next - c->ids.first_unsettled >= COXI_AHEAD_MAX;")]),
    "18a": ("the client's writes are not replayed", [
        ("coordinator", "redo", BEGIN, "return 0;")]),
    "18b": ("closures after a write of the previous client are not held back", [
        ("coordinator/checkpoints/resume_order.c", "holds", BEGIN, "return false;")]),
    "19": ("a ps that runs is not set back for a client that is started again", [
        ("ps/store.c", "take", "forget(store)", "(void)0")]),
    "20a": ("closures are dispatched while a ps is recovered", [
        ("coordinator", "assign", "bool recovery = atomic_load(&c->ps.under_way);", "bool recovery = false;")]),
    "20b": ("second attempts are begun while a ps is recovered", [
        ("coordinator", "coxi_stragglers_tick", "bool recovery = coxi_ps_recovering(c);", "bool recovery = false;")]),
    "21": ("the log's mark passes writes that are not done", [
        ("coordinator", "coxi_replay_log_mark", "size_t n = 0;", "size_t n = log->n;")]),
    "22a": ("a creation that is repeated fails", [
        ("ps", "coxi_store_create", "r == 0 && !is_there(store, &create->variable)", "r == 0")]),
    "22b": ("any incarnation accepts a creation", [
        ("ps", "answer_create", "int r = coxi_store_meant(tenant->store, request->create.incarnation);", "int r = 0;")]),
    "23": ("a restored table does not take its step", [
        ("ps/restore_table.c", "coxi_restore_table", "r = raise_step(restoring, part, step);", "r = 0;")]),
    "24": ("a ps forgets whom it served", [
        ("ps", "coxi_served_note", BEGIN, "return false;"),
        ("ps", "coxi_served_check", BEGIN, "return 0;")]),
    "25": ("closures that a recovery held are not settled", [
        ("coordinator", "coxi_recovery_let_go_held", BEGIN, "rec->held = NULL; return;")]),
    "26": ("a closure is done without its results", [
        ("coordinator/closures/voiding.c", "be_done", "closure->kept != NULL || is_nobodys(closure)", "1")]),
    "28a": ("a checkpoint takes tasks under way for covered", [
        ("coordinator/datasets", "is_covered", BEGIN, "return handout->closure != NULL;")]),
    "28b": ("a checkpoint lists tasks of closures that it covers", [
        ("coordinator/datasets", "is_covered", BEGIN, "return false;")]),
    "28c": ("tasks of the backlog are not under way in the next client", [
        ("coordinator/datasets", "coxi_datasets_adopt", BEGIN, "return 0;")]),
    "29": ("a task of which a part is applied is given out again", [
        ("coordinator/datasets", "leaves_trace", BEGIN, "return false;")]),
    "27": ("connections to a ps that was started anew are not closed", [
        ("net", "coxi_psc_follow", BEGIN, "return 0;")]),
    "30a": ("commits of a round are applied when they come", [
        ("ps", "coxi_store_commit", "commit->round != 0", "0")]),
    "30b": ("the end of a round takes all attempts of a closure that counts", [
        ("ps/round.c", "part_of", ": part->attempt == waiting->commit.attempt", ": 1")]),
    "30c": ("a commit that comes after the end of its round waits", [
        ("ps", "coxi_rounds_put", "r = coxi_applied_ask(applied, commit->round);", "r = 0;")]),
    "30d": ("a claim keeps what waits for rounds", [
        ("ps/store.c", "forget", "coxi_rounds_free(store->rounds);", ""),
        ("ps/store.c", "forget", "store->rounds = NULL;", ""),
        ("ps/store.c", "take", "r == 0 ? coxi_rounds_new(", "r == 0 && store->rounds == NULL ? coxi_rounds_new(")]),
    "31a": ("until every ps has the end, the client decides again", [
        ("coordinator", "look_at_members", "drop_late(round);", ";"),
        ("coordinator", "look_at_sent", "coxi_round_send(round) != 0", "decide(round), coxi_round_send(round) != 0"),
        ("coordinator/closures/round_decide.c", "be_done", BEGIN, "drop_late(round);")]),
    "31b": ("closures count whose commits a ps has lost", [
        ("coordinator", "stage_again", BEGIN, "return;")]),
    "31c": ("a round is logged when every ps has it", [
        ("coordinator", "log_one", "c->replay_log != NULL &&", "c->replay_log != NULL && coxi_round_is_acked(round) &&"),
        ("coordinator/closures/round_decide.c", "be_done", BEGIN, "(void)log_all(round);")]),
    "31d": ("the closures of a round are logged before its end", [
        ("coordinator", "log_all", "int r = log_one(round, round->end, touched, n_ps);",
         "int r = log_members(round, touched);"),
        ("coordinator", "log_all", "r = r == 0 ? log_members(round, touched) : r;",
         "for (uint32_t p = 0; p < n_ps; p++) { touched[p] = p; }"
         "r = r == 0 ? log_one(round, round->end, touched, n_ps) : r;")]),
    "31e": ("the end of a round counts as done before any ps has it", [
        ("coordinator", "send_first", "int r = log_all(round);",
         "int r = log_all(round); coxi_replay_log_set(c->replay_log, end->future.id, COXI_REPLAY_DONE);")]),
    "32a": ("a restored ps is asked for the closures of a round, not for its end", [
        ("coordinator", "is_owed", "coxi_replay_applied_as(entry)", "entry->id"),
        ("coordinator", "is_missing", "coxi_replay_applied_as(entry)", "entry->id")]),
    "32b": ("in a replay, calls overtake the end of a round before them", [
        ("coordinator/base/replay_log.c", "put", ": entry->id.n;",
         ": entry->id.n + (entry->kind == COXI_REPLAY_ROUND ? 4 : 0);")]),
    "32c": ("the end of a round that is repeated names the first attempts", [
        ("coordinator", "coxi_round_repeat", "parts[i].attempt != 0 && replayed != 0 ? replayed :", "")]),
    "33a": ("a backlog has parts of rounds", [
        ("coordinator", "coxi_rounds_whole", BEGIN, "return id;")]),
    "33b": ("a backlog does not say which closures of a round count", [
        ("coordinator", "describe_round", "(decided ? COXI_BACKLOG_DECIDED : 0U) |", "0U |"),
        ("coordinator", "describe_round", "round->decided ? round->parts[i].attempt != 0 : decided || may", "may")]),
    "33c": ("a backlog has closures whose round has ended without them", [
        ("coordinator/checkpoints/backlog.c", "collect", "coxi_dispatch_go_on(c);", "")]),
    "33d": ("a backlog has closures of open rounds twice", [
        ("coordinator", "note_logged", "|| is_open ||", "|| (0 && is_open) ||")]),
    "34a": ("only the lost ps is restored, although rounds are deterministic", [
        ("coordinator", "set_others_back", BEGIN, "return;")]),
    "34b": ("a ps that still runs keeps its incarnation when it is set back", [
        ("ps", "coxi_store_renew", BEGIN, "return 0;")]),
    "34c": ("a shard is cut while the end of a deterministic round is on its way", [
        ("coordinator", "await_ends", BEGIN, "return 0;")]),
    "34d": ("ends of deterministic rounds are sent while shards are cut", [
        ("coordinator", "coxi_round_is_paused", BEGIN, "return false;")]),
    "35a": ("pulls do not name the end that they must see", [
        ("coordinator", "coxi_round_head", "head.after = round->rounds->first->end->future.id.n;", "")]),
    "35b": ("a ps answers pulls before the end that they name", [
        ("ps", "coxi_store_pull_await", BEGIN, "return 0;")]),
    "35c": ("a round is decided before those that it must see are over", [
        ("coordinator/closures/round_decide.c", "look", "&& !coxi_round_must_see(round)", "")]),
    "35d": ("a step fails whose pull has waited too long", [
        ("worker", "coxi_pull_wait", "} else if (r == COX_ECANCELLED) {", "} else if (0) {")]),
    "35e": ("members begin before the round that they must see is complete, or nearly so", [
        ("coordinator", "coxi_round_must_wait", "(first->sent || coxi_round_is_nearly_over(first))", "true")]),
    "35f": ("a ps ends a round itself that must follow one which it does not have", [
        ("ps", "end_whole", "bool sees = last->share.after == 0 ||", "bool sees = true || last->share.after == 0 ||")]),
    "36a": ("rounds are not sealed", [
        ("coordinator", "coxi_round_must_be_sealed", BEGIN, "return false;"),
        ("coordinator", "coxi_round_postpones", BEGIN, "return false;")]),
    "36b": ("endings of closures do not wait until the round is sealed", [
        ("coordinator", "coxi_round_postpones", BEGIN, "return false;")]),
    "36c": ("a round is decided with later attempts before it is sealed", [
        ("coordinator", "coxi_round_must_be_sealed", "repeated = repeated || round->members[i].attempt > 1;", "")]),
    "36d": ("a ps ends rounds with later attempts itself", [
        ("coordinator", "coxi_round_head", "attempt == 1 && coxi_round_is_owned(round)", "coxi_round_is_owned(round)"),
        ("ps/rounds.c", "is_all", "commit->attempt == 1 &&", "")]),
    "36e": ("a ps ends rounds itself whose closures have touched others", [
        ("worker/commit.c", "submit_segment", "&& n_touched == 1", ""),
        ("ps/rounds.c", "is_all", "&& commit->n_touched == 1", "")]),
    "36f": ("a ps ends rounds itself of which it has some segments", [
        ("worker/commit.c", "submit_segment", "last && attempt->segment == 0 && n_touched == 1", "n_touched == 1"),
        ("ps/rounds.c", "is_all", "commit->segment == 0 && commit->last &&", "")]),
    "36g": ("a sealed round counts as not applied", [
        ("coordinator/closures/round_seal.c", "told", "outcome == COXI_VOID_APPLIED", "false")]),
    "36h": ("what a lost ps has ended itself counts as applied", [
        ("coordinator", "forget_ended", BEGIN, "return;")]),
}

COVERS = {
    "files": ("a shard is written over another", [
        ("common", "coxi_beneath_create", "O_EXCL", "O_TRUNC")]),
    "repeats": ("requests are repeated to a process of another incarnation", [
        ("net", "greeted", "    struct coxi_link *link = channel->link;",
         "    for (uint64_t id = psc->waiting.first; !channel->up && id < psc->waiting.next; id++) {"
         "        struct coxi_psc_request *request = coxi_window_get(&psc->waiting, id);"
         "        if (request != NULL && request->channel == channel->kind) {"
         "            (void)coxi_psc_put(channel->link, request, true);"
         "        }"
         "    }"
         "    struct coxi_link *link = channel->link;")]),
    "lost": ("a ps that is ready accepts commits that are meant for another incarnation", [
        ("ps/store.c", "coxi_store_check", "is_older ? 0 : coxi_store_meant(store, incarnation)",
         "is_older || incarnation ? 0 : 0")]),
    "fence": ("a creation is accepted from any client", [
        ("ps", "coxi_store_create", "coxi_store_fenced(store, &create->session)",
         "store->claimed ? 0 : coxi_store_fenced(store, &create->session)")]),
    "found": ("a ps does not compare how many closures of a round wait with what the end says", [
        ("ps/round.c", "check_found", BEGIN, "(void)ending; (void)n_found; return 0;")]),
    "long": ("requests with a payload go over the connection for long ones, and others overtake them", [
        ("net/ps_client.c", "prepare", "payload_len(request) > SMALL_MAX ||", "payload_len(request) > 0 ||")]),
}
COVERED = ["8c+lost", "11a+files", "22b+repeats", "22b+fence", "31d+long", "31e+long", "34c+long", "36d+found"]
