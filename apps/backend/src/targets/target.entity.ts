import { Check, Column, Entity, Index, PrimaryColumn, Unique } from 'typeorm';

/**
 * `closed`: requests go out. `open`: none goes out before `blockedUntil`. `half_open`: one run probes, until then or until it has come back.
 * `paused`: none goes out until somebody closes it by hand.
 */
export const TARGET_STATES = ['closed', 'open', 'half_open', 'paused'] as const;
export type TargetState = (typeof TARGET_STATES)[number];

/**
 * What outbound requests go to: an origin (`URL.origin`). One row for each that was ever called or that an operator has named.
 *
 * `blockedUntil` and `stateSince` are of the clock of due times, as the waits are that follow from them. `probeRunId`: the one run that may
 * try while it is half open. `breakerNo` rises whenever the target is found well or closed by hand; what a worker's breaker of an earlier
 * number says is stale. `releasedUntil`: the due time of the run let go last, from which the pace goes on.
 */
@Entity('targets')
@Unique('targets_origin', ['origin'])
@Index('targets_probe', ['probeRunId'], { where: 'probe_run_id IS NOT NULL' })
@Check('targets_state', `state IN ('closed', 'open', 'half_open', 'paused')`)
@Check('targets_blocked_until', `(state IN ('open', 'half_open')) = (blocked_until IS NOT NULL)`)
@Check('targets_limits', `rate_per_second > 0 AND max_concurrent > 0`)
export class Target {
  @PrimaryColumn('uuid') id!: string;
  @Column('text') origin!: string;
  @Column('text', { default: 'closed' }) state!: TargetState;
  /** Why it is not closed, in words for people. */
  @Column('text', { nullable: true }) why!: string | null;
  @Column('timestamptz', { name: 'blocked_until', nullable: true }) blockedUntil!: Date | null;
  @Column('uuid', { name: 'probe_run_id', nullable: true }) probeRunId!: string | null;
  @Column('int', { name: 'breaker_no', default: 0 }) breakerNo!: number;
  /** Requests a second, all workers together; null: no limit. */
  @Column('double precision', { name: 'rate_per_second', nullable: true }) ratePerSecond!: number | null;
  /** Requests at the same time in one worker; null: the worker's own share. */
  @Column('int', { name: 'max_concurrent', nullable: true }) maxConcurrent!: number | null;
  @Column('timestamptz', { name: 'released_until', nullable: true }) releasedUntil!: Date | null;
  @Column('timestamptz', { name: 'state_since', default: () => 'onward_now()' }) stateSince!: Date;
  @Column('timestamptz', { name: 'created_at', default: () => 'onward_now()' }) createdAt!: Date;
}
