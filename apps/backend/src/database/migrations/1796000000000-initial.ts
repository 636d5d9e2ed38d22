import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The first schema. Reasons stand with the entities; what entities cannot say (partial indexes, functions, fillfactor) stands here. */
export class Initial1796000000000 implements MigrationInterface {
  name = 'Initial1796000000000';

  async up(db: QueryRunner): Promise<void> {
    await db.query(`
      CREATE TABLE clock_offset (
        one boolean NOT NULL DEFAULT true,
        offset_ms bigint NOT NULL DEFAULT 0,
        CONSTRAINT clock_offset_pk PRIMARY KEY (one),
        CONSTRAINT clock_offset_one_row CHECK (one)
      );
      INSERT INTO clock_offset DEFAULT VALUES;

      -- The clock of due times. STABLE, or it could not be an index condition; real time plus an offset that only tests move.
      CREATE FUNCTION onward_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS
        $$ SELECT clock_timestamp() + offset_ms * interval '1 millisecond' FROM clock_offset $$;

      CREATE FUNCTION clock_offset_guard() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF current_setting('onward.test_clock', true) IS DISTINCT FROM 'on' THEN
          RAISE EXCEPTION 'the clock can be moved only with the test clock on';
        END IF;
        IF TG_OP <> 'UPDATE' THEN
          RAISE EXCEPTION 'the clock has one row, which stays';
        END IF;
        IF NEW.offset_ms < OLD.offset_ms THEN
          RAISE EXCEPTION 'the clock moves forward only';
        END IF;
        RETURN NEW;
      END $$;
      CREATE TRIGGER clock_offset_guard BEFORE INSERT OR UPDATE OR DELETE ON clock_offset FOR EACH ROW EXECUTE FUNCTION clock_offset_guard();
      CREATE TRIGGER clock_offset_keep BEFORE TRUNCATE ON clock_offset FOR EACH STATEMENT EXECUTE FUNCTION clock_offset_guard();

      CREATE TABLE api_keys (
        id uuid NOT NULL,
        name text NOT NULL,
        prefix text NOT NULL,
        hash bytea NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        last_used_at timestamptz,
        revoked_at timestamptz,
        CONSTRAINT api_keys_pk PRIMARY KEY (id),
        CONSTRAINT api_keys_hash UNIQUE (hash)
      );

      CREATE TABLE idempotency_keys (
        api_key_id uuid NOT NULL,
        key text NOT NULL,
        request_hash bytea NOT NULL,
        status integer,
        body json,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT idempotency_keys_pk PRIMARY KEY (api_key_id, key)
      );
      CREATE INDEX idempotency_keys_created ON idempotency_keys (created_at);

      CREATE TABLE contacts (
        id uuid NOT NULL,
        external_id text,
        email text,
        attributes jsonb NOT NULL DEFAULT '{}',
        email_problem text,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT contacts_pk PRIMARY KEY (id),
        CONSTRAINT contacts_external_id UNIQUE (external_id),
        CONSTRAINT contacts_identity CHECK (external_id IS NOT NULL OR email IS NOT NULL),
        CONSTRAINT contacts_email_lower CHECK (email = lower(email))
      );
      CREATE UNIQUE INDEX contacts_email_alone ON contacts (email) WHERE external_id IS NULL;
      CREATE INDEX contacts_email ON contacts (email);
      CREATE INDEX contacts_created ON contacts (created_at, id);

      CREATE TABLE lists (
        id uuid NOT NULL,
        name text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT lists_pk PRIMARY KEY (id),
        CONSTRAINT lists_name UNIQUE (name)
      );

      CREATE TABLE list_members (
        list_id uuid NOT NULL,
        contact_id uuid NOT NULL,
        added_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT list_members_pk PRIMARY KEY (list_id, contact_id),
        CONSTRAINT list_members_list FOREIGN KEY (list_id) REFERENCES lists (id) ON DELETE CASCADE,
        CONSTRAINT list_members_contact_fk FOREIGN KEY (contact_id) REFERENCES contacts (id) ON DELETE CASCADE
      );
      CREATE INDEX list_members_contact ON list_members (contact_id);

      CREATE TABLE contact_tags (
        contact_id uuid NOT NULL,
        tag text NOT NULL,
        added_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT contact_tags_pk PRIMARY KEY (contact_id, tag),
        CONSTRAINT contact_tags_contact FOREIGN KEY (contact_id) REFERENCES contacts (id) ON DELETE CASCADE
      );
      CREATE INDEX contact_tags_tag ON contact_tags (tag, contact_id);

      CREATE TABLE suppressions (
        email text NOT NULL,
        reason text NOT NULL,
        created_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT suppressions_pk PRIMARY KEY (email, reason),
        CONSTRAINT suppressions_reason CHECK (reason IN ('bounce', 'complaint', 'unsubscribed', 'manual')),
        CONSTRAINT suppressions_email_lower CHECK (email = lower(email))
      );

      CREATE TABLE templates (
        id uuid NOT NULL,
        name text NOT NULL,
        is_transactional boolean NOT NULL DEFAULT false,
        subject text NOT NULL,
        html text,
        text text,
        reply_to text,
        revision integer NOT NULL DEFAULT 1,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT templates_pk PRIMARY KEY (id),
        CONSTRAINT templates_name UNIQUE (name)
      );

      CREATE TABLE workflows (
        id uuid NOT NULL,
        name text NOT NULL,
        description text NOT NULL DEFAULT '',
        status text NOT NULL DEFAULT 'draft',
        draft jsonb NOT NULL,
        draft_trigger jsonb,
        trigger jsonb,
        settings jsonb NOT NULL,
        version_id uuid,
        let_go_at timestamptz,
        revision integer NOT NULL DEFAULT 1,
        archived_at timestamptz,
        created_at timestamptz NOT NULL DEFAULT now(),
        updated_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT workflows_pk PRIMARY KEY (id),
        CONSTRAINT workflows_status CHECK (status IN ('draft', 'active', 'paused')),
        CONSTRAINT workflows_archived_is_not_active CHECK (archived_at IS NULL OR status <> 'active'),
        CONSTRAINT workflows_active_has_version CHECK (status = 'draft' OR version_id IS NOT NULL)
      );
      CREATE INDEX workflows_active_event ON workflows ((trigger ->> 'event')) WHERE status = 'active' AND trigger ->> 'type' = 'event';

      CREATE TABLE workflow_versions (
        id uuid NOT NULL,
        workflow_id uuid NOT NULL,
        number integer NOT NULL,
        graph jsonb NOT NULL,
        settings jsonb NOT NULL,
        published_by text NOT NULL,
        published_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT workflow_versions_pk PRIMARY KEY (id),
        CONSTRAINT workflow_versions_number UNIQUE (workflow_id, number),
        CONSTRAINT workflow_versions_workflow FOREIGN KEY (workflow_id) REFERENCES workflows (id) ON DELETE CASCADE
      );

      CREATE TABLE events (
        id text NOT NULL,
        type text NOT NULL,
        contact_id uuid,
        payload jsonb NOT NULL,
        body_hash bytea NOT NULL,
        depth smallint NOT NULL DEFAULT 0,
        occurred_at timestamptz NOT NULL,
        received_at timestamptz NOT NULL DEFAULT now(),
        CONSTRAINT events_pk PRIMARY KEY (id)
      );
      CREATE INDEX events_received ON events (received_at, id);

      CREATE TABLE runs (
        id uuid NOT NULL,
        workflow_id uuid NOT NULL,
        version_id uuid NOT NULL,
        contact_id uuid,
        event_id text,
        state text NOT NULL,
        node text NOT NULL,
        seq integer NOT NULL,
        n smallint NOT NULL DEFAULT 1,
        due_at timestamptz,
        woken_at timestamptz,
        is_held boolean NOT NULL DEFAULT false,
        claim_id uuid NOT NULL,
        call_no integer NOT NULL DEFAULT -1,
        hand_out_id uuid,
        epoch integer NOT NULL DEFAULT 0,
        lease_until timestamptz,
        last_claim_id uuid,
        last_epoch integer NOT NULL DEFAULT 0,
        last_seq integer NOT NULL DEFAULT 0,
        takeovers smallint NOT NULL DEFAULT 0,
        wait_reason text,
        wait_key text,
        resolution jsonb,
        is_cancel_asked boolean NOT NULL DEFAULT false,
        unknown_nodes smallint NOT NULL DEFAULT 0,
        reentry_key text,
        end_reason text,
        created_at timestamptz NOT NULL DEFAULT onward_now(),
        ended_at timestamptz,
        CONSTRAINT runs_pk PRIMARY KEY (id),
        CONSTRAINT runs_reentry_key UNIQUE (reentry_key),
        CONSTRAINT runs_workflow_fk FOREIGN KEY (workflow_id) REFERENCES workflows (id),
        CONSTRAINT runs_version_fk FOREIGN KEY (version_id) REFERENCES workflow_versions (id),
        CONSTRAINT runs_state_columns CHECK (CASE state
          WHEN 'pending' THEN due_at IS NOT NULL AND lease_until IS NULL AND ended_at IS NULL
          WHEN 'running' THEN due_at IS NULL AND lease_until IS NOT NULL AND ended_at IS NULL
          WHEN 'waiting' THEN (due_at IS NOT NULL OR wait_key IS NOT NULL) AND wait_reason IS NOT NULL AND lease_until IS NULL AND ended_at IS NULL
          WHEN 'awaiting_approval' THEN wait_key IS NOT NULL AND lease_until IS NULL AND ended_at IS NULL
          WHEN 'retrying' THEN due_at IS NOT NULL AND lease_until IS NULL AND ended_at IS NULL
          WHEN 'succeeded' THEN due_at IS NULL AND lease_until IS NULL AND ended_at IS NOT NULL AND reentry_key IS NULL
          WHEN 'failed' THEN due_at IS NULL AND lease_until IS NULL AND ended_at IS NOT NULL AND reentry_key IS NULL
          WHEN 'dead_lettered' THEN due_at IS NULL AND lease_until IS NULL AND ended_at IS NOT NULL AND reentry_key IS NULL
          WHEN 'cancelled' THEN due_at IS NULL AND lease_until IS NULL AND ended_at IS NOT NULL AND reentry_key IS NULL
          ELSE false END)
      ) WITH (fillfactor = 80);
      CREATE INDEX runs_due ON runs (due_at, id) WHERE due_at IS NOT NULL AND NOT is_held;
      CREATE INDEX runs_held ON runs (workflow_id, due_at) WHERE is_held;
      CREATE INDEX runs_running ON runs (id) WHERE state = 'running';
      CREATE INDEX runs_wait_key ON runs (wait_key) WHERE wait_key IS NOT NULL;
      CREATE UNIQUE INDEX runs_event_workflow ON runs (event_id, workflow_id) WHERE event_id IS NOT NULL;
      CREATE INDEX runs_workflow ON runs (workflow_id, id);
      CREATE INDEX runs_contact ON runs (contact_id, id);

      CREATE TABLE run_contexts (
        run_id uuid NOT NULL,
        context jsonb NOT NULL,
        CONSTRAINT run_contexts_pk PRIMARY KEY (run_id),
        CONSTRAINT run_contexts_run FOREIGN KEY (run_id) REFERENCES runs (id) ON DELETE CASCADE
      );

      CREATE TABLE attempts (
        run_id uuid NOT NULL,
        seq integer NOT NULL,
        n smallint NOT NULL,
        node text NOT NULL,
        node_type text NOT NULL,
        status text NOT NULL,
        epoch integer NOT NULL,
        port text,
        verb text,
        input jsonb,
        output jsonb,
        failure jsonb,
        warnings jsonb,
        mark text,
        replay_of integer,
        started_at timestamptz NOT NULL DEFAULT onward_now(),
        ended_at timestamptz,
        CONSTRAINT attempts_pk PRIMARY KEY (run_id, seq, n),
        CONSTRAINT attempts_run FOREIGN KEY (run_id) REFERENCES runs (id) ON DELETE CASCADE,
        CONSTRAINT attempts_status CHECK (status IN ('open', 'sending', 'waiting', 'done', 'failed', 'uncertain', 'not_sent'))
      ) WITH (fillfactor = 90);

      CREATE TABLE outbound_requests (
        run_id uuid NOT NULL,
        seq integer NOT NULL,
        request jsonb NOT NULL,
        idempotency_key text NOT NULL,
        body_hash bytea NOT NULL,
        CONSTRAINT outbound_requests_pk PRIMARY KEY (run_id, seq),
        CONSTRAINT outbound_requests_run FOREIGN KEY (run_id) REFERENCES runs (id) ON DELETE CASCADE
      );

      CREATE TABLE run_refusals (
        id uuid NOT NULL,
        workflow_id uuid NOT NULL,
        version_id uuid,
        event_id text,
        contact_id uuid,
        reason text NOT NULL,
        detail text NOT NULL DEFAULT '',
        created_at timestamptz NOT NULL DEFAULT onward_now(),
        CONSTRAINT run_refusals_pk PRIMARY KEY (id)
      );
      CREATE INDEX run_refusals_workflow ON run_refusals (workflow_id, id);
      CREATE INDEX run_refusals_contact ON run_refusals (contact_id, id);
      CREATE UNIQUE INDEX run_refusals_event ON run_refusals (event_id, workflow_id) WHERE event_id IS NOT NULL;

      CREATE TABLE run_entries (
        workflow_id uuid NOT NULL,
        contact_id uuid NOT NULL,
        CONSTRAINT run_entries_pk PRIMARY KEY (workflow_id, contact_id)
      );

      CREATE TABLE messages (
        id uuid NOT NULL,
        run_id uuid,
        seq integer,
        notice_id uuid,
        contact_id uuid,
        template_id uuid,
        is_transactional boolean NOT NULL,
        state text NOT NULL DEFAULT 'prepared',
        try smallint NOT NULL DEFAULT 1,
        result_try smallint NOT NULL DEFAULT 0,
        uncertain_tries smallint NOT NULL DEFAULT 0,
        begun_until timestamptz,
        begun_by uuid,
        woken_at timestamptz,
        message_id_header text NOT NULL,
        from_mailbox jsonb NOT NULL,
        to_mailbox jsonb NOT NULL,
        reply_to_mailbox jsonb,
        subject text NOT NULL,
        html text,
        text text,
        response text,
        failure jsonb,
        skip_reason text,
        created_at timestamptz NOT NULL DEFAULT now(),
        ended_at timestamptz,
        CONSTRAINT messages_pk PRIMARY KEY (id),
        CONSTRAINT messages_step UNIQUE (run_id, seq),
        CONSTRAINT messages_state CHECK (state IN ('prepared', 'begun', 'sent', 'failed', 'uncertain', 'skipped')),
        CONSTRAINT messages_begun_until CHECK ((state = 'begun') = (begun_until IS NOT NULL))
      );
      CREATE UNIQUE INDEX messages_notice ON messages (notice_id, (to_mailbox ->> 'address')) WHERE notice_id IS NOT NULL;
      CREATE INDEX messages_open ON messages (state, id) WHERE state IN ('prepared', 'begun');
      CREATE INDEX messages_created ON messages (created_at, id);
      CREATE INDEX messages_contact ON messages (contact_id, created_at, id);

      CREATE TABLE notices (
        id uuid NOT NULL,
        run_id uuid NOT NULL,
        seq integer NOT NULL,
        state text NOT NULL,
        node text NOT NULL,
        failure jsonb NOT NULL,
        created_at timestamptz NOT NULL DEFAULT onward_now(),
        sent_at timestamptz,
        CONSTRAINT notices_pk PRIMARY KEY (id),
        CONSTRAINT notices_step UNIQUE (run_id, seq)
      );
      CREATE INDEX notices_unsent ON notices (id) WHERE sent_at IS NULL;
    `);
  }

  async down(): Promise<void> {
    throw new Error('There is nothing before the first schema');
  }
}
