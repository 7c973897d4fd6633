/**
 * The savepoints that clients of libraries have in one transaction. They may end in any order,
 * though those of a session are nested, and no one waits for another: a query inside of a library's
 * transaction could not be told from one beside it, and would wait for ever.
 */
export class SavepointStack {
  private readonly savepoints: Savepoint[] = [];
  private made = 0;

  constructor(private readonly prefix: string) {}

  get hasOpen(): boolean {
    return this.savepoints.some(({ isOver }) => !isOver);
  }

  /**
   * Notes a statement, which would be undone with every savepoint that others have open.
   *
   * @throws {Error} Where it would run in another's role or tenant.
   */
  asked(client?: object): void {
    const own = this.savepoints.findIndex((one) => one.client === client && !one.isOver);
    const above = own < 0 ? [] : this.savepoints.slice(own);
    if (above.some((one) => one.hasSettings && !one.isOver && one.client !== client))
      throw new Error(OTHER_SETTINGS);
    for (const savepoint of this.savepoints) savepoint.hasGuests ||= savepoint.client !== client;
  }

  keepSettings(client: object): void {
    for (const savepoint of this.savepoints) savepoint.hasSettings ||= savepoint.client === client;
  }

  /** Returns the name to be set. */
  set(client: object, label: string): string {
    this.made += 1;
    const name = `${this.prefix}_${this.made}`;
    this.savepoints.push({
      client,
      label,
      name,
      isOver: false,
      hasGuests: false,
      hasSettings: false,
    });
    return name;
  }

  /**
   * Ends one, and its client's later ones. Returns the name to be released, which is none while
   * others have one open above it.
   */
  end(client: object, label: string): string | undefined {
    for (const savepoint of this.savepoints.slice(this.indexOf(client, label)))
      savepoint.isOver ||= savepoint.client === client;
    const ended = this.savepoints.findLastIndex(({ isOver }) => !isOver) + 1;
    return this.savepoints.splice(ended)[0]?.name;
  }

  /**
   * Forgets what came after one, which stays. Tells its name, and whether others lose what they did
   * since.
   */
  undo(client: object, label: string): Pick<Savepoint, 'name' | 'hasGuests'> {
    const index = this.indexOf(client, label);
    const [savepoint] = this.savepoints.splice(index);
    if (savepoint) this.savepoints.push(savepoint);
    return savepoint ?? missing(label);
  }

  has(client: object, label: string): boolean {
    return this.find(client, label) >= 0;
  }

  private indexOf(client: object, label: string): number {
    const index = this.find(client, label);
    return index < 0 ? missing(label) : index;
  }

  private find(client: object, label: string): number {
    return this.savepoints.findLastIndex(
      (one) => one.client === client && one.label === label && !one.isOver,
    );
  }
}

/** One of a library's client within a transaction. */
interface Savepoint {
  readonly client: object;
  /** As the client calls it. Two clients may use the same word. */
  readonly label: string;
  readonly name: string;
  isOver: boolean;
  hasGuests: boolean;
  /** Until its end there is another role, or another tenant. */
  hasSettings: boolean;
}

function missing(label: string): never {
  throw new Error(
    label === ''
      ? NO_TRANSACTION
      : `There is no savepoint "${label}" here: it was rolled back with one below it.`,
  );
}

const NO_TRANSACTION =
  "The library's transaction no longer exists: it was rolled back with the one it was begun in.";
const OTHER_SETTINGS =
  'Another library transaction is open in this one and has set its own role or tenant, under which this would run. Await one before the next begins.';
