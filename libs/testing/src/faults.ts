import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';
import { LanguageModel, ModelError } from '@toolloop/core';
import type { ModelEvent, ModelRequest } from '@toolloop/protocol';

/** A fault of a provider, instead of a whole answer. */
export type ModelFault =
  /** The connection breaks after so many events of the answer. */
  | { readonly kind: 'drop'; readonly after: number }
  /** The stream ends after so many events, without saying why. */
  | { readonly kind: 'cut'; readonly after: number }
  /** The provider falls silent after so many events, until the question is aborted. */
  | { readonly kind: 'stall'; readonly after: number }
  /** The arguments of the first call end in the middle, and the answer with them. */
  | { readonly kind: 'half-call' }
  /** The provider refuses the question: 429 unless `status` says otherwise. */
  | { readonly kind: 'refuse'; readonly status?: number; readonly retryAfterMs?: number };

/**
 * A model with faults: the nth question has the nth fault of the plan, and none where the plan has
 * undefined or has ended.
 *
 * @example
 * const model = new FaultyModel(new ScriptedModel([text('Hello'), text('Hello')]), [
 *   { kind: 'refuse', retryAfterMs: 1 },
 * ]);
 */
export class FaultyModel extends LanguageModel {
  override readonly provider: string;
  override readonly modelId: string;
  override readonly capabilities;
  private asked = 0;

  constructor(
    private readonly model: LanguageModel,
    private readonly plan: readonly (ModelFault | undefined)[],
  ) {
    super();
    this.provider = model.provider;
    this.modelId = model.modelId;
    this.capabilities = model.capabilities;
  }

  /** The number of questions so far. */
  get questions(): number {
    return this.asked;
  }

  /** @throws {ModelError} Where the plan has it. */
  async *stream(
    request: ModelRequest,
    signal: AbortSignal,
  ): AsyncGenerator<ModelEvent, void, undefined> {
    const fault = this.plan[this.asked];
    this.asked += 1;
    if (fault?.kind === 'refuse') throw refusal(fault);
    const answer = this.model.stream(request, signal);
    if (!fault) yield* answer;
    else yield* fault.kind === 'half-call' ? untilHalfCall(answer) : firstOf(answer, fault.after);
    if (fault?.kind === 'drop')
      throw new ModelError('The connection broke.', { code: 'connection_lost', retryable: true });
    if (fault?.kind === 'stall') await untilAborted(signal);
  }
}

function refusal({
  status = 429,
  retryAfterMs,
}: Extract<ModelFault, { kind: 'refuse' }>): ModelError {
  return new ModelError(`The provider answered ${status}.`, {
    status,
    retryable: status === 429 || status >= 500,
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  });
}

async function* firstOf(
  answer: AsyncIterable<ModelEvent>,
  count: number,
): AsyncGenerator<ModelEvent, void, undefined> {
  let left = count;
  if (left === 0) return;
  for await (const event of answer) {
    yield event;
    left -= 1;
    if (left === 0) return;
  }
}

async function* untilHalfCall(
  answer: AsyncIterable<ModelEvent>,
): AsyncGenerator<ModelEvent, void, undefined> {
  for await (const event of answer) {
    if (event.type === 'tool-call-delta') {
      const { argumentsDelta } = event;
      return yield {
        ...event,
        argumentsDelta: argumentsDelta.slice(0, Math.ceil(argumentsDelta.length / 2)),
      };
    }
    if (event.type === 'tool-call' || event.type === 'finish') return;
    yield event;
  }
}

function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** A fault of a store at one call of one of its methods. */
export interface StoreTrouble {
  readonly method: string;
  /** From 1, among the calls while it may be in trouble. @default every call */
  readonly at?: number;
  /** Tells whether it may be in trouble now. @default always */
  readonly when?: () => boolean;
  /**
   * The end of the call: a rejection, or a promise that never settles. @default a store that hangs
   */
  readonly answer?: () => Promise<never>;
  /**
   * True where the store does what it is asked before it fails, as one whose connection is lost on
   * the way back. @default false
   */
  readonly isDone?: boolean;
}

const HANG = (): Promise<never> => new Promise<never>(() => undefined);

/**
 * A store, or any other adapter, that is as it was but for some calls.
 *
 * @example
 * const pending = troubled(new MemoryPendingStore(), {
 *   method: 'add',
 *   answer: () => Promise.reject(new StorageUnavailableError()),
 * });
 */
export function troubled<Store extends object>(
  store: Store,
  { method, at, when = () => true, answer = HANG, isDone = false }: StoreTrouble,
): Store {
  let calls = 0;
  return new Proxy(store, {
    get: (target, property) => {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== 'function') return value;
      return (...given: readonly unknown[]): unknown => {
        const isMeant = property === method && when();
        if (isMeant) calls += 1;
        const isTroubled = isMeant && (at === undefined || calls === at);
        if (!isTroubled) return Reflect.apply(value, target, given);
        return isDone
          ? Promise.resolve(Reflect.apply(value, target, given)).then(answer)
          : answer();
      };
    },
  });
}

/**
 * A process to be killed: the arguments of Node.js, and what it says by `process.send` when its
 * moment has come.
 */
export interface DoomedProcess<Said> {
  readonly args: readonly string[];
  /**
   * Takes what the process says; what it returns, other than undefined, is the moment to kill it.
   */
  readonly until: (message: unknown) => Said | undefined;
  readonly options?: SpawnOptions;
}

/**
 * Starts a process of Node.js, kills it with SIGKILL in the moment that it tells, and resolves once
 * it is gone.
 *
 * @throws {Error} Where it ends by itself before, with what it wrote to the standard error.
 *
 * @example
 * const runId = await killedProcess({
 *   args: ['dist/worker.js'],
 *   until: (said) => (typeof said === 'string' ? said : undefined),
 * });
 */
export async function killedProcess<Said>({
  args,
  until,
  options = {},
}: DoomedProcess<Said>): Promise<Said> {
  const child = spawn(process.execPath, [...args], {
    ...options,
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  const said = await momentOf(child, until);
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()));
  child.kill('SIGKILL');
  await gone;
  return said;
}

function momentOf<Said>(child: ChildProcess, until: DoomedProcess<Said>['until']): Promise<Said> {
  let written = '';
  child.stderr?.on('data', (chunk: Buffer) => (written += chunk.toString()));
  return new Promise((resolve, reject) => {
    child.on('message', (message) => {
      const said = until(message);
      if (said !== undefined) resolve(said);
    });
    child.once('error', reject);
    child.once('close', (code) =>
      reject(new Error(`The process ended by itself with ${code}.\n${written}`)),
    );
  });
}
