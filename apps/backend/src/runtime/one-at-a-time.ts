/** Does work that has the same key one after the other, in the order it came. What is thrown, its own asker is thrown. */
export class OneAtATime {
  private readonly last = new Map<string, Promise<unknown>>();

  do<Answer>(key: string, work: () => Promise<Answer>): Promise<Answer> {
    const before = this.last.get(key);
    const answer = before ? before.then(work) : work();
    const ended = answer
      .catch(() => undefined)
      .finally(() => {
        if (this.last.get(key) === ended) this.last.delete(key);
      });
    this.last.set(key, ended);
    return answer;
  }
}
