import { FAILURES, type FailureCode } from '@onward/contracts/errors';
import { failed, type Outcome } from '@onward/contracts/outcome';
import { VERBS } from '@onward/contracts/patterns';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { asRecorded, judge, MAX_ATTEMPTS, MAX_UNCERTAIN_RESENDS } from '../src/judge.js';

const plain = { hasFailedPort: false, uncertainPolicy: 'resend' } as const;
const handled = { hasFailedPort: true, uncertainPolicy: 'resend' } as const;
const strict = { hasFailedPort: false, uncertainPolicy: 'stop' } as const;
const tally = (failures = 0, uncertain = 0) => ({ failed: failures, uncertain });
const retryable = failed('http_retryable', 'HTTP 503');
const permanent = failed('http_permanent', 'HTTP 404');
const uncertain: Outcome = { kind: 'uncertain', failure: { code: 'process_died', message: 'killed' } };

const codes = Object.keys(FAILURES) as FailureCode[];
const failure = fc.constantFrom(...codes).map((code) => ({ code, message: code }));
const resting: fc.Arbitrary<Outcome> = fc.oneof(
  fc.constant<Outcome>({ kind: 'wait', dueAt: '2026-04-07T09:00:00Z', why: 'time' }),
  fc.constant<Outcome>({ kind: 'suspended', key: 'mail:1', why: 'mail' }),
  fc.constant<Outcome>({ kind: 'not_sent', why: 'the breaker is open' }),
);
const doubtful = failure.map((of): Outcome => ({ kind: 'uncertain', failure: of }));
const anyOutcome: fc.Arbitrary<Outcome> = fc.oneof(
  resting,
  doubtful,
  failure.map((of): Outcome => ({ kind: 'failed', failure: of })),
  fc.option(fc.string(), { nil: undefined }).map((port): Outcome => ({ kind: 'done', output: null, ...(port === undefined ? {} : { port }) })),
);
const anyNode = fc.record({ hasFailedPort: fc.boolean(), uncertainPolicy: fc.constantFrom('resend' as const, 'stop' as const) });
const anyTally = fc.record({ failed: fc.nat(10), uncertain: fc.nat(10) });

describe('judge', () => {
  test('a step that is done advances by its port, or by next', () => {
    expect(judge({ kind: 'done', output: 1 }, plain, tally())).toEqual({ verb: 'advance', port: 'next' });
    expect(judge({ kind: 'done', output: 1, port: 'approved' }, plain, tally())).toEqual({ verb: 'advance', port: 'approved' });
  });

  test('a retryable failure is tried three times, then dead-lettered', () => {
    expect([0, 1, 2, 3].map((failures) => judge(retryable, plain, tally(failures)).verb)).toEqual(['retry', 'retry', 'dead-letter', 'dead-letter']);
    expect(MAX_ATTEMPTS).toBe(3);
  });

  test('a permanent failure ends the run at once', () => {
    expect(judge(permanent, plain, tally())).toEqual({ verb: 'fail' });
  });

  test('where a failed port is drawn, a failure for good leaves by it, and a retryable one only when it is spent', () => {
    expect(judge(permanent, handled, tally())).toEqual({ verb: 'advance', port: 'failed' });
    expect(judge(retryable, handled, tally(1))).toEqual({ verb: 'retry' });
    expect(judge(retryable, handled, tally(2))).toEqual({ verb: 'advance', port: 'failed' });
  });

  test('an uncertain send is repeated three times and never by the failed port', () => {
    expect([0, 1, 2, 3].map((count) => judge(uncertain, handled, tally(0, count)).verb)).toEqual(['retry', 'retry', 'retry', 'dead-letter']);
    expect(MAX_UNCERTAIN_RESENDS).toBe(3);
  });

  test('failures do not count as uncertain sends, nor the other way round', () => {
    expect(judge(uncertain, plain, tally(2, 0)).verb).toBe('retry');
    expect(judge(retryable, plain, tally(0, 3)).verb).toBe('retry');
  });

  test('under the policy stop, whatever may have happened is dead-lettered at once', () => {
    expect(judge(uncertain, strict, tally())).toEqual({ verb: 'dead-letter' });
    expect(judge(failed('timeout', 'no answer'), { ...strict, hasFailedPort: true }, tally())).toEqual({ verb: 'dead-letter' });
    expect(judge(failed('response_cut', 'cut'), strict, tally())).toEqual({ verb: 'dead-letter' });
    expect(judge(failed('network', 'refused'), strict, tally())).toEqual({ verb: 'retry' });
    expect(judge(failed('timeout', 'no answer'), plain, tally())).toEqual({ verb: 'retry' });
  });

  // Every line of the rule for sends that were not answered: what it is recorded as, and the verbs after 0, 1, 2 and 3 of its kind before.
  const sent = { detail: { mayHaveBeenSent: true } };
  const unsent = { detail: { mayHaveBeenSent: false } };
  test.each<[policy: 'resend' | 'stop', what: string, outcome: Outcome, recorded: Outcome['kind'], verbs: string[]]>([
    ['resend', 'nobody knows', uncertain, 'uncertain', ['retry', 'retry', 'retry', 'dead-letter']],
    ['resend', 'no answer in time, bytes left', failed('timeout', 'x', sent), 'failed', ['retry', 'retry', 'dead-letter', 'dead-letter']],
    ['resend', 'reset, bytes left', failed('network', 'x', sent), 'failed', ['retry', 'retry', 'dead-letter', 'dead-letter']],
    ['resend', 'answer cut', failed('response_cut', 'x', sent), 'failed', ['retry', 'retry', 'dead-letter', 'dead-letter']],
    ['resend', 'nothing left', failed('network', 'x', unsent), 'failed', ['retry', 'retry', 'dead-letter', 'dead-letter']],
    ['stop', 'nobody knows', uncertain, 'uncertain', ['dead-letter', 'dead-letter', 'dead-letter', 'dead-letter']],
    ['stop', 'no answer in time, bytes left', failed('timeout', 'x', sent), 'uncertain', ['dead-letter', 'dead-letter', 'dead-letter', 'dead-letter']],
    ['stop', 'no answer in time, nobody says what left', failed('timeout', 'x'), 'uncertain', ['dead-letter', 'dead-letter', 'dead-letter', 'dead-letter']],
    ['stop', 'reset, bytes left', failed('network', 'x', sent), 'uncertain', ['dead-letter', 'dead-letter', 'dead-letter', 'dead-letter']],
    ['stop', 'answer cut', failed('response_cut', 'x', sent), 'uncertain', ['dead-letter', 'dead-letter', 'dead-letter', 'dead-letter']],
    ['stop', 'no connection in time, nothing left', failed('timeout', 'x', unsent), 'failed', ['retry', 'retry', 'dead-letter', 'dead-letter']],
    ['stop', 'nothing left', failed('network', 'x', unsent), 'failed', ['retry', 'retry', 'dead-letter', 'dead-letter']],
    ['stop', 'answered 503', retryable, 'failed', ['retry', 'retry', 'dead-letter', 'dead-letter']],
    ['stop', 'answered 404', permanent, 'failed', ['fail', 'fail', 'fail', 'fail']],
    ['stop', 'larger than allowed', failed('response_too_large', 'x', sent), 'failed', ['fail', 'fail', 'fail', 'fail']],
  ])('under %s, %s', (uncertainPolicy, _what, outcome, recorded, verbs) => {
    for (const hasFailedPort of [false, true]) {
      const node = { hasFailedPort, uncertainPolicy };
      expect(asRecorded(outcome, node)).toEqual({ ...outcome, kind: recorded });
      const judged = [0, 1, 2, 3].map((count) => judge(outcome, node, recorded === 'uncertain' ? tally(0, count) : tally(count)).verb);
      // A failed port takes what has failed for good; what is uncertain never leaves by it.
      const isHandled = hasFailedPort && recorded === 'failed';
      expect(judged).toEqual(isHandled ? verbs.map((verb) => (verb === 'retry' ? verb : 'advance')) : verbs);
    }
  });

  test('every outcome has exactly one verb, and a port only where it advances', () => {
    fc.assert(
      fc.property(anyOutcome, anyNode, anyTally, (outcome, node, counts) => {
        const { verb, port } = judge(outcome, node, counts);
        return VERBS.includes(verb) && (verb === 'advance') === (port !== undefined);
      }),
    );
  });

  test('waits, unsent and uncertain sends never fail a run, and resting spends nothing', () => {
    fc.assert(fc.property(resting, anyNode, anyTally, (outcome, node, counts) => judge(outcome, node, counts).verb === 'wait'));
    fc.assert(fc.property(doubtful, anyNode, anyTally, (outcome, node, counts) => ['retry', 'dead-letter'].includes(judge(outcome, node, counts).verb)));
  });

  test('no step is retried for ever', () => {
    fc.assert(fc.property(anyOutcome, anyNode, (outcome, node) => judge(outcome, node, tally(MAX_ATTEMPTS - 1, MAX_UNCERTAIN_RESENDS)).verb !== 'retry'));
  });
});
