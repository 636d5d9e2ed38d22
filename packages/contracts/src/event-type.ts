import { z } from 'zod';

/** What happened, as a host system names it: `order.paid`. Capitals count: `Order.paid` is another type. */
export const eventTypeSchema = z.string().regex(/^[A-Za-z][A-Za-z0-9_.-]{0,99}$/, 'must be an event type such as order.paid');
