import { v7 } from 'uuid';

/** A new UUIDv7 (RFC 9562 §5.7): made by the application, sortable by the time it was made. */
export function newId(): string {
  return v7();
}
