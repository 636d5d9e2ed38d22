import { Check, Column, Entity, PrimaryColumn } from 'typeorm';

export const SUPPRESSION_REASONS = ['bounce', 'complaint', 'unsubscribed', 'manual'] as const;
export type SuppressionReason = (typeof SUPPRESSION_REASONS)[number];

/** An address that must not be written to. Transactional mail is excused from `unsubscribed` only. */
@Entity('suppressions')
@Check('suppressions_reason', `reason IN ('bounce', 'complaint', 'unsubscribed', 'manual')`)
@Check('suppressions_email_lower', 'email = lower(email)')
export class Suppression {
  @PrimaryColumn('text') email!: string;
  @PrimaryColumn('text') reason!: SuppressionReason;
  @Column('timestamptz', { name: 'created_at', default: () => 'now()' }) createdAt!: Date;
}
