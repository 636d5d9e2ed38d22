/**
 * Those who wait at one target, for a place or for their instant. Each leaves once, by what comes first: it arrives, its patience ends,
 * it is called away by a signal (the worker stops, the lease is lost), or everybody is sent back because the target wants no more now.
 */
import type { Blocked } from '@onward/contracts/targets';
import { onAbort } from '@onward/egress/on-abort';

/** Why a request is not sent now, in words for people, and when it is worth looking again. */
export type Block = Pick<Blocked, 'by' | 'inMs'> & { why: string };
export type Left = { kind: 'called_away' } | { kind: 'sent_back'; block: Block };

export class Waiting {
  private readonly inside = new Set<(block: Block) => void>();

  sendBack(block: Block): void {
    for (const leave of [...this.inside]) leave(block);
  }

  /**
   * Waits for `ms` at most, and then comes to `late`. `begin` is handed what is to be called on arrival; that answers whether there was still
   * somebody to arrive.
   */
  wait<T>({
    ms,
    late,
    signals,
    begin = () => undefined,
  }: {
    ms: number;
    late: T;
    signals: readonly AbortSignal[];
    begin?: (arrive: (value: T) => boolean) => void;
  }): Promise<T | Left> {
    return new Promise((resolve) => {
      let hasLeft = false;
      const leave = (by: T | Left): boolean => {
        if (hasLeft) return false;
        hasLeft = true;
        clearTimeout(timer);
        this.inside.delete(sendBack);
        for (const end of unlisten) end();
        resolve(by);
        return true;
      };
      const sendBack = (block: Block) => void leave({ kind: 'sent_back', block });
      const callAway = () => void leave({ kind: 'called_away' });
      const timer = setTimeout(() => leave(late), ms);
      this.inside.add(sendBack);
      const unlisten = signals.map((signal) => onAbort(signal, callAway));
      if (signals.some(({ aborted }) => aborted)) callAway();
      else begin(leave);
    });
  }
}
