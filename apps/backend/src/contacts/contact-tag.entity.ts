import { Column, Entity, ForeignKey, Index, PrimaryColumn } from 'typeorm';
import { Contact } from './contact.entity.js';

/** A tag is a name; it exists while a contact carries it. */
@Entity('contact_tags')
@Index('contact_tags_tag', ['tag', 'contactId'])
export class ContactTag {
  @ForeignKey(() => Contact, { name: 'contact_tags_contact', onDelete: 'CASCADE' })
  @PrimaryColumn('uuid', { name: 'contact_id' })
  contactId!: string;
  @PrimaryColumn('text') tag!: string;
  @Column('timestamptz', { name: 'added_at', default: () => 'now()' }) addedAt!: Date;
}
