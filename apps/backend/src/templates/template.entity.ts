import { Column, Entity, PrimaryColumn, Unique } from 'typeorm';

/** A mail template in Liquid. Each part is escaped by its own kind: HTML in `html`, nothing in `subject` and `text`. */
@Entity('templates')
@Unique('templates_name', ['name'])
export class Template {
  @PrimaryColumn('uuid') id!: string;
  @Column('text') name!: string;
  /** Transactional mail is excused from opt-outs, never from bounces or complaints. */
  @Column('boolean', { name: 'is_transactional', default: false }) isTransactional!: boolean;
  @Column('text') subject!: string;
  @Column('text', { nullable: true }) html!: string | null;
  @Column('text', { nullable: true }) text!: string | null;
  @Column('text', { name: 'reply_to', nullable: true }) replyTo!: string | null;
  @Column('int', { default: 1 }) revision!: number;
  @Column('timestamptz', { name: 'created_at', default: () => 'now()' }) createdAt!: Date;
  @Column('timestamptz', { name: 'updated_at', default: () => 'now()' }) updatedAt!: Date;
}
