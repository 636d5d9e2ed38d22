import { z } from 'zod';

/** An id as it comes from outside: in letters of either case (RFC 9562 §4), and out of here as Postgres writes it, for within ids are compared as texts. */
export const uuidSchema = z.uuid().toLowerCase();
