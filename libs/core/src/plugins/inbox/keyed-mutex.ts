/**
 * Runs one task of a key at a time, in the order they came. Tasks of different keys do not wait for
 * each other.
 */
export class KeyedMutex {
  private readonly last = new Map<string, Promise<unknown>>();

  /** Runs a task once those before it have settled, and settles as it does. */
  async run<Result>(key: string, task: () => Promise<Result>): Promise<Result> {
    const before = this.last.get(key);
    const mine = before ? before.then(task, task) : task();
    this.last.set(key, mine);
    try {
      return await mine;
    } finally {
      if (this.last.get(key) === mine) this.last.delete(key);
    }
  }
}
