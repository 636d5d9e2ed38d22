import { Column, Entity, ForeignKey, Index, PrimaryColumn, Unique } from 'typeorm';
import { Contact } from './contact.entity.js';

@Entity('lists')
@Unique('lists_name', ['name'])
export class List {
  @PrimaryColumn('uuid') id!: string;
  @Column('text') name!: string;
  @Column('timestamptz', { name: 'created_at', default: () => 'now()' }) createdAt!: Date;
}

@Entity('list_members')
@Index('list_members_contact', ['contactId'])
export class ListMember {
  @ForeignKey(() => List, { name: 'list_members_list', onDelete: 'CASCADE' })
  @PrimaryColumn('uuid', { name: 'list_id' })
  listId!: string;
  @ForeignKey(() => Contact, { name: 'list_members_contact_fk', onDelete: 'CASCADE' })
  @PrimaryColumn('uuid', { name: 'contact_id' })
  contactId!: string;
  @Column('timestamptz', { name: 'added_at', default: () => 'now()' }) addedAt!: Date;
}
