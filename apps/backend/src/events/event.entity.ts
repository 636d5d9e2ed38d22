import type { Json } from '@onward/contracts/json';
import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

/**
 * Something that happened. `id` is the emitter's own, or ours; the same id with another body (`bodyHash`) is a conflict.
 * `depth` counts the runs between an outside cause and this event, so that journeys cannot set each other off for ever.
 */
@Entity('events')
@Index('events_received', ['receivedAt', 'id'])
export class Event {
  @PrimaryColumn('text') id!: string;
  @Column('text') type!: string;
  @Column('uuid', { name: 'contact_id', nullable: true }) contactId!: string | null;
  @Column('jsonb') payload!: Record<string, Json>;
  @Column('bytea', { name: 'body_hash' }) bodyHash!: Buffer;
  @Column('smallint', { default: 0 }) depth!: number;
  @Column('timestamptz', { name: 'occurred_at' }) occurredAt!: Date;
  @Column('timestamptz', { name: 'received_at', default: () => 'now()' }) receivedAt!: Date;
}
