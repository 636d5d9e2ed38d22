import type { Json } from '@onward/contracts/json';

/** What conditions and templates may look at. Plain data; looked up by own properties only. */
export type Scope = {
  contact: { [key: string]: Json } | null;
  event: { [key: string]: Json } | null;
  context: { [key: string]: Json };
  steps: { [node: string]: Json };
  run: { [key: string]: Json };
  workflow: { [key: string]: Json };
  /** Only in the texts of a FORWARD_REQUEST: by name, the placeholder that stands for the secret's value. */
  secrets?: { [name: string]: Json };
};
