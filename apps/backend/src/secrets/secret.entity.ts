import { Column, Entity, PrimaryColumn, Unique } from 'typeorm';

/** A value that journeys may use and nobody can read again: sealed under ONWARD_SECRET_KEY (AES-256-GCM), and bound to the origins it may go to. */
@Entity('secrets')
@Unique('secrets_name', ['name'])
export class Secret {
  @PrimaryColumn('uuid') id!: string;
  @Column('text') name!: string;
  @Column('bytea') sealed!: Buffer;
  /** Origins as `URL.origin` has them; at least one. */
  @Column('jsonb', { name: 'allowed_origins' }) allowedOrigins!: string[];
  @Column('timestamptz', { name: 'created_at', default: () => 'now()' }) createdAt!: Date;
  @Column('timestamptz', { name: 'updated_at', default: () => 'now()' }) updatedAt!: Date;
}
