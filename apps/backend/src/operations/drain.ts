import { Injectable } from '@nestjs/common';

/** Whether the process is closing: readiness says no from then on, so that nobody sends more. */
@Injectable()
export class Drain {
  isDraining = false;
}
