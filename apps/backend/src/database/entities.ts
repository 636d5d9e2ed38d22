import { ApiKey } from '../access/api-key.entity.js';
import { IdempotencyKey } from '../access/idempotency-key.entity.js';
import { Contact } from '../contacts/contact.entity.js';
import { ContactTag } from '../contacts/contact-tag.entity.js';
import { List, ListMember } from '../contacts/list.entity.js';
import { Event } from '../events/event.entity.js';
import { Message } from '../mail/message.entity.js';
import { Suppression } from '../mail/suppression.entity.js';
import { Notice } from '../notifications/notice.entity.js';
import { WorkerRow } from '../operations/worker.entity.js';
import { Attempt } from '../runs/attempt.entity.js';
import { OutboundRequestRow } from '../runs/outbound-request.entity.js';
import { Run } from '../runs/run.entity.js';
import { RunContextRow } from '../runs/run-context.entity.js';
import { RunEntry } from '../runs/run-entry.entity.js';
import { RunRefusal } from '../runs/run-refusal.entity.js';
import { Secret } from '../secrets/secret.entity.js';
import { Target } from '../targets/target.entity.js';
import { Template } from '../templates/template.entity.js';
import { Workflow } from '../workflows/workflow.entity.js';
import { WorkflowVersion } from '../workflows/workflow-version.entity.js';
import { ClockOffset } from './clock-offset.entity.js';

/** Every table, listed by hand so that source, tests and the built artefact know the same ones. */
export const ENTITIES = [
  ApiKey,
  Attempt,
  ClockOffset,
  Contact,
  ContactTag,
  Event,
  IdempotencyKey,
  List,
  ListMember,
  Message,
  Notice,
  OutboundRequestRow,
  Run,
  RunContextRow,
  RunEntry,
  RunRefusal,
  Secret,
  Suppression,
  Target,
  Template,
  WorkerRow,
  Workflow,
  WorkflowVersion,
];
