import { Column, Entity, PrimaryColumn, Unique } from 'typeorm';

/** A key is shown once and kept as a SHA-256 hash; it is 32 random bytes, so a fast hash is enough. */
@Entity('api_keys')
@Unique('api_keys_hash', ['hash'])
export class ApiKey {
  @PrimaryColumn('uuid') id!: string;
  @Column('text') name!: string;
  /** The first characters, to tell keys apart. */
  @Column('text') prefix!: string;
  @Column('bytea') hash!: Buffer;
  @Column('timestamptz', { name: 'created_at', default: () => 'now()' }) createdAt!: Date;
  @Column('timestamptz', { name: 'last_used_at', nullable: true }) lastUsedAt!: Date | null;
  @Column('timestamptz', { name: 'revoked_at', nullable: true }) revokedAt!: Date | null;
}
