import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

/** The first answer to a creating request that carried an Idempotency-Key; a repeat gets it again, another body a 409. */
@Entity('idempotency_keys')
@Index('idempotency_keys_created', ['createdAt'])
export class IdempotencyKey {
  @PrimaryColumn('uuid', { name: 'api_key_id' }) apiKeyId!: string;
  @PrimaryColumn('text') key!: string;
  /** HMAC-SHA256 over method, path and body, under ONWARD_SECRET_KEY. */
  @Column('bytea', { name: 'request_hash' }) requestHash!: Buffer;
  /** Null while the first request is still being worked on. */
  @Column('int', { nullable: true }) status!: number | null;
  /** Kept as the text it was sent as. */
  @Column('json', { nullable: true }) body!: unknown;
  @Column('timestamptz', { name: 'created_at', default: () => 'now()' }) createdAt!: Date;
}
