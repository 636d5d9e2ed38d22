import { Check, Column, Entity, PrimaryColumn } from 'typeorm';

/** One row: how far the test clock is ahead, in ms. Zero, and locked by a trigger, outside tests. */
@Entity('clock_offset')
@Check('clock_offset_one_row', 'one')
export class ClockOffset {
  @PrimaryColumn('boolean', { default: true }) one!: boolean;
  @Column('bigint', { name: 'offset_ms', default: 0 }) offsetMs!: string;
}
