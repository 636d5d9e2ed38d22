import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Foreign keys that say nothing new are gone: Postgres looks the other row up, and locks it, for every row that is written (docs/decisions/0017). What a run leaves behind is
 * written under the lock of the run or in the transaction that makes it, and goes with it by a trigger that sees all runs of a DELETE at once. A version goes only with
 * its workflow, which a run holds by a key of its own.
 */
export class LeanHistory1796300000000 implements MigrationInterface {
  name = 'LeanHistory1796300000000';

  async up(db: QueryRunner): Promise<void> {
    await db.query(`
      ALTER TABLE runs DROP CONSTRAINT runs_version_fk;
      ALTER TABLE attempts DROP CONSTRAINT attempts_run;
      ALTER TABLE run_contexts DROP CONSTRAINT run_contexts_run;
      ALTER TABLE outbound_requests DROP CONSTRAINT outbound_requests_run;
      -- A session keeps the plan of its first DELETE: one of many runs must not have all attempts read for the next, of one.
      CREATE FUNCTION delete_what_runs_left() RETURNS trigger LANGUAGE plpgsql SET enable_seqscan = off AS $$
      BEGIN
        DELETE FROM attempts USING gone WHERE run_id = gone.id;
        DELETE FROM run_contexts USING gone WHERE run_id = gone.id;
        DELETE FROM outbound_requests USING gone WHERE run_id = gone.id;
        RETURN NULL;
      END $$;
      CREATE TRIGGER runs_leave_nothing AFTER DELETE ON runs REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION delete_what_runs_left();
    `);
  }

  async down(): Promise<void> {
    throw new Error('Rows without their run may have come since');
  }
}
