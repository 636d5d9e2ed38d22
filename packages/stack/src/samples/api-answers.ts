/** What Onward's HTTP API answers, as far as the samples look at it. Instants are RFC 3339 in UTC. */

export type Failure = { readonly code: string; readonly message: string };

/** One attempt of one step of a run. */
export type Attempt = {
  readonly seq: number;
  readonly n: number;
  readonly node: string;
  readonly nodeType: string;
  readonly status: 'open' | 'sending' | 'waiting' | 'done' | 'failed' | 'uncertain' | 'not_sent';
  readonly port: string | null;
  readonly verb: string | null;
  readonly input: unknown;
  readonly output: unknown;
  readonly failure: Failure | null;
  readonly mark: string | null;
  /** The step that had failed, when a replay opened this one. */
  readonly replayOf: number | null;
  readonly startedAt: string;
  readonly endedAt: string | null;
};

export type RunState = 'pending' | 'running' | 'waiting' | 'awaiting_approval' | 'retrying' | 'succeeded' | 'failed' | 'dead_lettered' | 'cancelled';

export type RunMessage = {
  readonly seq: number;
  readonly state: string;
  readonly subject: string;
  readonly to: { readonly address: string };
  /** What the mail server said. */
  readonly response: string | null;
};

export type Notice = { readonly seq: number; readonly sentAt: string | null };

export type EventView = { readonly id: string; readonly type: string };
export type ContactSnapshot = { readonly externalId: string | null; readonly email: string | null; readonly attributes: Readonly<Record<string, unknown>> };

/** A run with its whole history. */
export type Run = {
  readonly id: string;
  readonly workflowId: string;
  readonly workflowName: string;
  readonly versionId: string;
  readonly versionNumber: number;
  readonly contactId: string | null;
  readonly state: RunState;
  /** Why it is where it is, in a sentence. */
  readonly why: string;
  readonly node: string;
  readonly dueAt: string | null;
  readonly isHeld: boolean;
  readonly waitReason: 'time' | 'mail' | 'event' | 'target' | null;
  readonly endedAt: string | null;
  readonly createdAt: string;
  readonly context: { readonly event: EventView | null; readonly contact: ContactSnapshot | null };
  readonly history: readonly Attempt[];
  readonly messages: readonly RunMessage[];
  readonly notices: readonly Notice[];
};

/** A system that is called, by its origin. */
export type Target = { readonly id: string; readonly origin: string; readonly state: 'closed' | 'open' | 'half_open' | 'paused' };

export type GraphNode = { readonly id: string; readonly config: Readonly<Record<string, unknown>> };
export type Graph = { readonly nodes: readonly GraphNode[] };

export type Named = { readonly id: string; readonly name: string };
export type Workflow = Named & {
  readonly status: 'draft' | 'active' | 'paused';
  readonly archivedAt: string | null;
  readonly version: { readonly id: string } | null;
};

export type Contact = { readonly id: string; readonly tags: readonly string[]; readonly lists: readonly Named[] };

/** What the webhook sink recorded. */
export type SinkRequest = { readonly method: string; readonly path: string; readonly body: string };
/** What the inbox of the mail sink shows of a message. */
export type InboxMail = { readonly to: readonly string[]; readonly subject: string };
