import type { Json } from '@onward/contracts/json';
import { Check, Column, Entity, Index, PrimaryColumn, Unique } from 'typeorm';

/**
 * The recipient. Identity: `externalId` when there is one, else the lower-cased e-mail, which is unique among contacts without
 * an external id. `emailProblem` says why the address cannot be written to; sending skips such a contact.
 */
@Entity('contacts')
@Unique('contacts_external_id', ['externalId'])
@Check('contacts_identity', 'external_id IS NOT NULL OR email IS NOT NULL')
@Check('contacts_email_lower', 'email = lower(email)')
@Index('contacts_email_alone', { synchronize: false })
@Index('contacts_email', ['email'])
@Index('contacts_created', ['createdAt', 'id'])
export class Contact {
  @PrimaryColumn('uuid') id!: string;
  @Column('text', { name: 'external_id', nullable: true }) externalId!: string | null;
  @Column('text', { nullable: true }) email!: string | null;
  @Column('jsonb', { default: {} }) attributes!: Record<string, Json>;
  @Column('text', { name: 'email_problem', nullable: true }) emailProblem!: string | null;
  @Column('timestamptz', { name: 'created_at', default: () => 'now()' }) createdAt!: Date;
  @Column('timestamptz', { name: 'updated_at', default: () => 'now()' }) updatedAt!: Date;
}
