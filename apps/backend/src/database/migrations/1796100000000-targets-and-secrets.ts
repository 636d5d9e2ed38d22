import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Targets with their breakers and rates, the workers that are there, secrets, what people said of uncertain outcomes; and the indexes by
 * which the sweeper finds runs that were never woken, in turn by workflow, runs whose wake-up may be lost, and runs that wait for a target.
 */
export class TargetsAndSecrets1796100000000 implements MigrationInterface {
  name = 'TargetsAndSecrets1796100000000';

  async up(db: QueryRunner): Promise<void> {
    await db.query(`
      CREATE TABLE targets (
        id uuid NOT NULL,
        origin text NOT NULL,
        state text NOT NULL DEFAULT 'closed',
        why text,
        blocked_until timestamptz,
        probe_run_id uuid,
        breaker_no integer NOT NULL DEFAULT 0,
        rate_per_second double precision,
        max_concurrent integer,
        released_until timestamptz,
        state_since timestamptz NOT NULL DEFAULT onward_now(),
        created_at timestamptz NOT NULL DEFAULT onward_now(),
        CONSTRAINT targets_pk PRIMARY KEY (id),
        CONSTRAINT targets_origin UNIQUE (origin),
        CONSTRAINT targets_state CHECK (state IN ('closed', 'open', 'half_open', 'paused')),
        CONSTRAINT targets_blocked_until CHECK ((state IN ('open', 'half_open')) = (blocked_until IS NOT NULL)),
        CONSTRAINT targets_limits CHECK (rate_per_second > 0 AND max_concurrent > 0)
      );
      CREATE INDEX targets_probe ON targets (probe_run_id) WHERE probe_run_id IS NOT NULL;

      CREATE TABLE workers (
        id uuid NOT NULL,
        seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        in_flight integer NOT NULL DEFAULT 0,
        targets jsonb NOT NULL DEFAULT '[]',
        CONSTRAINT workers_pk PRIMARY KEY (id)
      );

      CREATE TABLE secrets (
        id uuid NOT NULL,
        name text NOT NULL,
        sealed bytea NOT NULL,
        allowed_origins jsonb NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT secrets_pk PRIMARY KEY (id),
        CONSTRAINT secrets_name UNIQUE (name)
      );

      ALTER TABLE attempts ADD COLUMN resolved jsonb;
      CREATE INDEX attempts_uncertain ON attempts (run_id, seq, n) WHERE status = 'uncertain';
      ALTER TABLE messages ADD COLUMN resolved jsonb;
      CREATE INDEX messages_uncertain ON messages (id) WHERE state = 'uncertain';
      CREATE INDEX messages_resolved ON messages (id) WHERE resolved IS NOT NULL;

      -- A run that waits for a target is woken by the target's turn, not by its time alone, so the due index leaves it out.
      DROP INDEX runs_due;
      CREATE INDEX runs_due ON runs (due_at, id)
        WHERE due_at IS NOT NULL AND NOT is_held AND (wait_reason IS DISTINCT FROM 'target' OR resolution IS NOT NULL);
      CREATE INDEX runs_unwoken ON runs (workflow_id, due_at, id)
        WHERE due_at IS NOT NULL AND woken_at IS NULL AND NOT is_held AND (wait_reason IS DISTINCT FROM 'target' OR resolution IS NOT NULL);
      CREATE INDEX runs_woken ON runs (woken_at, id)
        WHERE woken_at IS NOT NULL AND due_at IS NOT NULL AND NOT is_held AND (wait_reason IS DISTINCT FROM 'target' OR resolution IS NOT NULL);
      CREATE INDEX runs_parked ON runs (wait_key, due_at, id) WHERE wait_reason = 'target' AND resolution IS NULL;
    `);
  }

  async down(): Promise<void> {
    throw new Error('What was recorded since cannot be taken back');
  }
}
