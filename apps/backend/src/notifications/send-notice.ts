import { compileGraph } from '@onward/workflow-graph/compile-graph';
import { change, rows, type Tx } from '../database/sql.js';
import { insertMessage } from '../mail/insert-message.js';
import { senderOf } from '../mail/read-mailbox.js';
import type { Settings } from '../settings.js';
import { workflowSettingsSchema } from '../workflows/workflow-settings.js';
import type { Notice } from './notice.entity.js';
import { writeNotice } from './write-notice.js';

/** What every notice needs of the installation: the sender, who is always told, and where the console stands. */
export type NoticeSettings = Pick<Settings, 'mailFrom' | 'notifyTo' | 'publicUrl'>;

/**
 * Sends a notice that the caller has locked: one transactional message for each address that the workflow names now or the settings name,
 * which leaves after the caller's commit. A repeat writes no second message. With nobody to tell the notice is done all the same.
 * Answers how many messages were written.
 */
export async function sendNotice(tx: Tx, notice: Notice, settings: NoticeSettings): Promise<number> {
  const run = await readRun(tx, notice.runId);
  const written = writeNotice({
    workflow: run?.workflow ?? 'a deleted workflow',
    runId: notice.runId,
    contact: run?.contact ?? null,
    state: notice.state,
    node: notice.node,
    nodeName: compileGraph(run?.graph).node(notice.node)?.name ?? null,
    failure: notice.failure,
    at: notice.createdAt,
    link: `${settings.publicUrl}/api/v1/runs/${notice.runId}`,
  });
  let messages = 0;
  for (const address of addressesOf(run?.settings, settings)) {
    const message = {
      runId: null,
      seq: null,
      noticeId: notice.id,
      contactId: null,
      templateId: null,
      isTransactional: true,
      from: senderOf(settings.mailFrom),
      to: { name: '', address },
      replyTo: null,
      skipReason: null,
    };
    if ((await insertMessage(tx, { ...message, ...written })) !== null) messages += 1;
  }
  await change(tx, 'UPDATE notices SET sent_at = onward_now() WHERE id = $1', [notice.id]);
  return messages;
}

type NoticeRun = { workflow: string; settings: unknown; graph: unknown; contact: string | null };

async function readRun(tx: Tx, runId: string): Promise<NoticeRun | undefined> {
  const [run] = await rows<NoticeRun>(
    tx,
    `SELECT w.name AS workflow, w.settings, v.graph, coalesce(c.email, c.external_id, r.contact_id::text) AS contact
       FROM runs r
       JOIN workflows w ON w.id = r.workflow_id
       JOIN workflow_versions v ON v.id = r.version_id
       LEFT JOIN contacts c ON c.id = r.contact_id
      WHERE r.id = $1`,
    [runId],
  );
  return run;
}

/** Each address once, whatever its case; settings that cannot be read name nobody. */
function addressesOf(settings: unknown, { notifyTo }: NoticeSettings): string[] {
  const read = workflowSettingsSchema.safeParse(settings);
  const named = [...(read.success ? read.data.notify : []), ...notifyTo];
  return [...new Set(named.map((address) => address.toLowerCase()))];
}
