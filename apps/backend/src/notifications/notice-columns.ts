import type { Columns } from '../database/columns.js';
import type { Notice } from './notice.entity.js';

export const NOTICE_COLUMNS: Columns<Notice> = {
  id: 'id',
  runId: 'run_id',
  seq: 'seq',
  state: 'state',
  node: 'node',
  failure: 'failure',
  createdAt: 'created_at',
  sentAt: 'sent_at',
};
