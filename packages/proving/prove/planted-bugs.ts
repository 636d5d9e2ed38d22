/**
 * One bug for each rule that may never be broken, and the test that must turn red when the bug is in the code.
 * `from` stands once in `file`; `test` is a file of the package `folder`, and `title` the tests of it that are run.
 */
export type PlantedBug = {
  /** The number of the rule in ARCHITECTURE.md §11. */
  rule: number;
  what: string;
  file: string;
  from: string;
  to: string;
  folder: string;
  test: string;
  title: string;
};

export const PLANTED_BUGS: readonly PlantedBug[] = [
  {
    rule: 1,
    what: 'an event is kept under an id of ours instead of its own',
    file: 'apps/backend/src/triggers/event/accept-events.ts',
    from: 'id: input.id ?? newId(), bodyHash',
    to: 'id: newId(), bodyHash',
    folder: 'apps/backend',
    test: 'test/events/events.test.ts',
    title: 'the same id sent again gives the same answer',
  },
  {
    rule: 2,
    what: 'a lapsed lease is never looked for',
    file: 'apps/backend/src/sweeper/lapse-runs.ts',
    from: 'lease_until < clock_timestamp()',
    to: "lease_until < clock_timestamp() - interval '1 day'",
    folder: 'apps/backend',
    test: 'test/runtime/claim.test.ts',
    title: 'a lapsed lease gives the run back',
  },
  {
    rule: 3,
    what: 'the epoch of a call is not looked at',
    file: 'apps/backend/src/runtime/checkpoint.ts',
    from: 'run.claimId === ref.claimId && run.epoch === ref.epoch;',
    to: 'run.claimId === ref.claimId;',
    folder: 'apps/backend',
    test: 'test/runtime/claim.test.ts',
    title: 'whoever holds an older epoch is refused',
  },
  {
    rule: 4,
    what: 'an advance leaves out a number',
    file: 'apps/backend/src/runtime/pass-nodes.ts',
    from: 'arrive(checkpoint, version, following, seq + 1, kit);',
    to: 'arrive(checkpoint, version, following, seq + 2, kit);',
    folder: 'apps/backend',
    test: 'test/runtime/lost-calls.test.ts',
    title: 'automation.runtime.run.advance: request lost',
  },
  {
    rule: 5,
    what: 'a frame that is sent again is taken for a new one',
    file: 'apps/backend/src/runtime/checkpoint.ts',
    from: 'if (isCurrent && run.seq === ref.seq)',
    to: 'if (isCurrent)',
    folder: 'apps/backend',
    test: 'test/runtime/repeats.test.ts',
    title: 'a frame that advanced, sent again',
  },
  {
    rule: 6,
    what: 'a fourth attempt may fail',
    file: 'packages/workflow-graph/src/judge.ts',
    from: 'MAX_ATTEMPTS = 3',
    to: 'MAX_ATTEMPTS = 4',
    folder: 'apps/backend',
    test: 'test/runtime/verbs.test.ts',
    title: 'a step that fails three times',
  },
  {
    rule: 6,
    what: 'every attempt has a key of its own',
    file: 'apps/backend/src/runtime/execute-action.ts',
    from: 'return handOver(request, entry.limits, sealed);',
    to: "return handOver({ ...request, headers: { ...request.headers, 'idempotency-key': String(Math.random()) } }, entry.limits, sealed);",
    folder: 'apps/backend',
    test: 'test/runtime/verbs.test.ts',
    title: 'the next attempt carries the same key',
  },
  {
    rule: 7,
    what: 'what was not sent counts as an attempt',
    file: 'apps/backend/src/runtime/close-step.ts',
    from: "return restRun(checkpoint, 'release', { dueAt: checkpoint.now });",
    to: "return restRun(checkpoint, 'release', { dueAt: checkpoint.now, n: attempt.n + 1 });",
    folder: 'apps/backend',
    test: 'test/runtime/verbs.test.ts',
    title: 'what was not sent spends nothing',
  },
  {
    rule: 8,
    what: 'a run is given out a day before it is due',
    file: 'apps/backend/src/runtime/prepare-run.ts',
    from: 'if (inMs > 0)',
    to: 'if (inMs > 86_400_000)',
    folder: 'apps/backend',
    test: 'test/runtime/claim.test.ts',
    title: 'a wake-up that comes early',
  },
  {
    rule: 7,
    what: 'waiting for a blocked target counts as an attempt',
    file: 'apps/backend/src/runtime/close-step.ts',
    from: 'waitKey: targetKey(origin), resolution: null,',
    to: 'waitKey: targetKey(origin), resolution: null, n: attempt.n + 1,',
    folder: 'apps/backend',
    test: 'test/targets/parking.test.ts',
    title: 'a run let go sends under the same n',
  },
  {
    rule: 9,
    what: 'what a wiped queue has lost is not told again',
    file: 'apps/backend/src/sweeper/wake-lost.ts',
    from: 'LOST_AFTER_MS = 4_000',
    to: 'LOST_AFTER_MS = 4_000_000_000',
    folder: 'apps/backend',
    test: 'test/sweeper/valkey-away.test.ts',
    title: 'after FLUSHALL the queue is filled again',
  },
  {
    rule: 10,
    what: 'the answer of a target is recorded as it came',
    file: 'packages/egress/src/mask-secrets.ts',
    from: 'text: (text) => orElse(() => mask.text(text), HIDDEN),',
    to: 'text: (text) => text,',
    folder: 'packages/automation-worker',
    test: 'test/secrets.test.ts',
    title: 'a value that is cut in two by the length kept',
  },
];
