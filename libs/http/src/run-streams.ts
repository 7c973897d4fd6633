import {
  ConflictException,
  HttpException,
  HttpStatus,
  Injectable,
  MethodNotAllowedException,
  type OnModuleDestroy,
} from '@nestjs/common';
import { InvalidRequestError, type LoopRequest, type RunHandle } from '@toolloop/core';
import { RunService } from '@toolloop/core/runs';
import type { Asks, LoopEvent, Run } from '@toolloop/protocol';
import { MOST_LISTED } from '@toolloop/protocol/routes';
import type { EventEncoder, SeenEvent } from '@toolloop/ui-stream';
import type { ServerResponse } from 'node:http';
import { type AnyResponse, sendEvents } from './event-stream.js';
import { CallerLimits, ownerKey } from './caller-limits.js';
import { type Caller, type HttpLimits, type HttpRequest, limitsOf } from './http-options.js';
import {
  type ChatState,
  FallenBehindError,
  OpenRun,
  OpenRuns,
  type RunNames,
} from './open-runs.js';
import { ServedLoop } from './served-loop.js';

/** Opens runs for readers, finds them again, and sends what they say no faster than it is read. */
@Injectable()
export class RunStreams implements OnModuleDestroy {
  private readonly open = new OpenRuns();

  constructor(
    private readonly served: ServedLoop,
    private readonly runs: RunService,
    private readonly callers: CallerLimits,
  ) {}

  onModuleDestroy(): void {
    this.open.close();
  }

  /**
   * The events of a question. A durable run is slowed by no reader; any other waits for its reader.
   */
  async ask(
    request: LoopRequest,
    caller: Caller,
    terms: StreamTerms = {},
  ): Promise<AsyncIterable<LoopEvent>> {
    const { loop, options } = this.served;
    if (!request.durable) return this.read(loop.open(request), caller, terms);
    const { durable: _durable, ...queued } = request;
    // It may have been started by another process.
    if (request.requestId !== undefined)
      return this.runs.read(await this.runs.start(queued, options.loop), caller);
    return this.followDurable(loop.open(request), caller);
  }

  /**
   * The events of a durable run that this process performs, as they come. A reader that falls
   * behind reads them from the log, and so does one whose run is not told to its end here, since it
   * continues elsewhere or its end is stored too late.
   */
  private async *followDurable(
    handle: RunHandle,
    caller: Caller,
  ): AsyncGenerator<LoopEvent, void, undefined> {
    const { keptBytes } = limitsOf(this.served.options);
    const run = new OpenRun(
      handle,
      {},
      { reconnectMs: 0, keptBytes, isDurable: true },
      () => undefined,
    );
    let last: LoopEvent | undefined;
    try {
      for await (const event of run.read(0)) yield (last = event);
    } catch (error) {
      if (!(error instanceof FallenBehindError)) throw error;
    }
    if (last?.type !== 'run-end') yield* this.runs.read(handle.runId, caller, last?.sequence);
  }

  /** The events of a run that was opened elsewhere, such as by a controller of the application. */
  read(handle: RunHandle, caller: Caller, terms: StreamTerms = {}): AsyncIterable<LoopEvent> {
    return this.open.add(handle, this.namesOf(caller, terms), this.limitsFor(terms)).read();
  }

  /**
   * The events of a run that continues after an answer: those that follow, or all of a durable run.
   */
  async resume(
    runId: string,
    caller: Caller,
    terms: StreamTerms = {},
  ): Promise<AsyncIterable<LoopEvent>> {
    const reopened = this.runs.reopen(runId, await this.served.termsOf(caller));
    const handle = await this.ofStored({ runId, caller, done: 'resumed' }, reopened);
    if (!handle) return this.runs.read(runId, caller);
    return this.read(handle, caller, terms);
  }

  /**
   * The events of a run behind a sequence. A client that connects again after the last one is told
   * by a 204 that there is no more.
   *
   * @throws {FallenBehindError} Where the run is not durable and those events are not kept any
   *   more.
   * @throws {ConflictException} Where it is not durable, and another process has read it or it
   *   waits.
   * @throws {InvalidRequestError} Where this process and the storage know no such run of the
   *   caller's.
   */
  async watch(
    runId: string,
    caller: Caller,
    { after, isAgain }: { readonly after: number; readonly isAgain: boolean },
  ): Promise<AsyncIterable<LoopEvent>> {
    const run = this.open.find(runId, this.callers.ownerOf(caller));
    if (run) {
      if (isAgain && run.hasEnded && after >= run.lastSequence) throw noMore();
      if (run.has(after)) return run.read(after);
      throw new FallenBehindError();
    }
    // it fails before anything is sent
    const { status, lastSequence, durable } = await this.runs.get(runId, caller).catch(withAdvice);
    if (!durable) throw new ConflictException({ code: 'events_not_kept', message: NOT_KEPT });
    if (isAgain && status === 'ended' && after >= lastSequence) throw noMore();
    return this.runs.read(runId, caller, after);
  }

  /**
   * The events behind the last one that a stream has shown which named its run.
   *
   * @throws {HttpException} 204 for anything else: the question is not asked again.
   */
  async watchSeen(
    { runId, sequence: after }: SeenEvent,
    caller: Caller,
  ): Promise<AsyncIterable<LoopEvent>> {
    if (runId === undefined || !this.find(runId, caller)) throw noMore();
    return this.watch(runId, caller, { after, isAgain: true });
  }

  /**
   * All events of the run that answers in a chat.
   *
   * @throws {HttpException} 204 for a chat in which none does.
   */
  watchChat(chatId: string | undefined, caller: Caller): AsyncIterable<LoopEvent> {
    return this.answering(chatId, caller).read(0);
  }

  /**
   * The state of the client behind which the answer of a chat stands, with the id of its run.
   *
   * @throws {HttpException} 204 for a chat in which none answers.
   */
  stateOf(
    chatId: string | undefined,
    caller: Caller,
  ): { readonly runId: string; readonly state: ChatState } {
    const { runId, names } = this.answering(chatId, caller);
    return { runId, state: names.state ?? { messages: [] } };
  }

  private answering(chatId: string | undefined, caller: Caller): OpenRun {
    const run =
      chatId === undefined ? undefined : this.open.ofChat(this.namesOf(caller, { chatId }));
    if (run && !run.hasEnded && run.has(0)) return run;
    throw noMore();
  }

  /**
   * The runs of an actor, the newest first: before those that are stored the ones that this process
   * reads for their actor, and that leave nothing in the storage. The id of either is the place
   * from which to list on. Of a whole tenant those that are stored.
   */
  async list(
    caller: Caller,
    { limit = MOST_LISTED, after, ...which }: Asks<'GET /runs'>,
  ): Promise<readonly Run[]> {
    const { status } = which;
    const open = this.openOf(caller, which);
    const place = open.findIndex(({ runId }) => runId === after);
    const isStored = after !== undefined && place === -1;
    const shown = isStored
      ? []
      : open.slice(place + 1).filter((run) => run.status === (status ?? run.status));
    const ids = new Set(open.map(({ runId }) => runId));
    for (let last = isStored ? after : undefined; ;) {
      const page = await this.runs.list(caller, { ...which, limit, after: last });
      shown.push(...page.filter(({ runId }) => !ids.has(runId)));
      last = page.at(-1)?.runId;
      if (page.length < limit || shown.length >= limit) return shown.slice(0, limit);
    }
  }

  /**
   * The runs that this process reads for an actor; none for a whole tenant, whose list is that of
   * what is stored.
   */
  private openOf(
    caller: Caller,
    { actorId, ofTenant }: Pick<Asks<'GET /runs'>, 'actorId' | 'ofTenant'>,
  ): ReturnType<OpenRuns['of']> {
    if (ofTenant) return [];
    return this.open.of(
      actorId === undefined ? this.callers.ownerOf(caller) : ownerKey(caller.tenant, actorId),
    );
  }

  /** A run that this process reads for its caller, as the routes show it. */
  find(runId: string, caller: Caller): Run | undefined {
    return this.open.find(runId, this.callers.ownerOf(caller))?.view;
  }

  /**
   * Works with a stored run, and says of one that this process reads why it is not stored: the
   * lists show either alike.
   */
  async ofStored<Made>({ runId, caller, done }: StoredWork, work: Promise<Made>): Promise<Made> {
    return work.catch((error: unknown) => {
      if (!isUnknownRun(error) || !this.find(runId, caller)) throw error;
      throw new InvalidRequestError(
        'unknown_run',
        `The run ${runId} ${NOT_STORED} ${done}. ${INSTEAD[done]}`,
      );
    });
  }

  /** Ends a run, whether this process reads it or it is stored. Does nothing where it has ended. */
  async cancel(runId: string, caller: Caller, reason?: string): Promise<void> {
    const run = this.open.find(runId, this.callers.ownerOf(caller));
    if (run && !run.hasEnded) return run.cancel(reason);
    await this.runs.cancel(runId, caller, reason).catch((error: unknown) => {
      if (!run || !isUnknownRun(error)) throw error; // it has ended, and was not stored
    });
  }

  /**
   * Sends events to a reader until they end, or until it leaves.
   *
   * @throws {HttpException} 429 for one stream too many of an actor, 405 for a HEAD, which would
   *   run something for no one.
   */
  async send(
    events: () => AsyncIterable<LoopEvent> | Promise<AsyncIterable<LoopEvent>>,
    encoder: EventEncoder,
    { request, response }: StreamEnds,
    caller: Caller,
  ): Promise<void> {
    if (request.method === 'HEAD') throw new MethodNotAllowedException();
    const close = this.callers.openStream(caller);
    try {
      await sendEvents(await events(), encoder, response, limitsOf(this.served.options));
    } finally {
      close();
    }
  }

  /**
   * Reads all events, for an answer that is not streamed. A client that leaves stops what it has
   * asked, as the reader of a stream does.
   */
  async collect(
    events: () => Promise<AsyncIterable<LoopEvent>>,
    signal: AbortSignal,
  ): Promise<readonly LoopEvent[]> {
    const iterator = (await events())[Symbol.asyncIterator]();
    const leave = (): void => void iterator.return?.();
    signal.addEventListener('abort', leave, { once: true });
    if (signal.aborted) leave();
    const all: LoopEvent[] = [];
    for (let next = await iterator.next(); !next.done; next = await iterator.next())
      all.push(next.value);
    return all;
  }

  private limitsFor({
    isResumable = false,
  }: StreamTerms): Pick<HttpLimits, 'reconnectMs' | 'keptBytes'> {
    const { reconnectMs, keptBytes } = limitsOf(this.served.options);
    return { reconnectMs: isResumable ? reconnectMs : 0, keptBytes };
  }

  private namesOf(caller: Caller, { chatId, state, isResumable }: StreamTerms): RunNames {
    const owner = this.callers.ownerOf(caller);
    return {
      ...(owner !== undefined && { owner }),
      ...(chatId !== undefined && { chatId }),
      ...(isResumable && state && { state }),
    };
  }
}

/** A stream as a route opens it. */
export interface StreamTerms {
  /** Lets the run outlive its reader, for a protocol whose clients can read on. @default false */
  readonly isResumable?: boolean;
  /** The client's id of its chat, by which the protocol finds the run again. */
  readonly chatId?: string;
  /** The state of the client that is kept for it with a run that can be resumed. */
  readonly state?: ChatState | undefined;
}

/** The request and the response of a stream. */
export interface StreamEnds {
  readonly request: HttpRequest;
  readonly response: AnyResponse & ServerResponse;
}

const ADVICE =
  'The events of a run that is not durable are kept by the process that reads it, for a while: send the requests of a client to one process, or ask with "durable": true.';

const NOT_KEPT = `This run is not durable, and its events are not kept in this process. ${ADVICE} Where it waits, answer it, and read on with "resume".`;

/** A stored run, and the work that needs one. */
interface StoredWork {
  readonly runId: string;
  readonly caller: Caller;
  readonly done: 'rehearsed' | 'forked' | 'undone' | 'resumed';
}

const NOT_STORED =
  'is not durable: nothing is stored of it while it is read, nor once it has ended, so that it cannot be';

/** The advice in place of a work that only a stored run allows. */
const INSTEAD: Readonly<Record<StoredWork['done'], string>> = {
  rehearsed: 'Ask with "durable": true, and rehearse that run.',
  forked: 'Ask with "durable": true, and fork that run.',
  undone: 'Undo its directives one by one, or ask with "durable": true, and undo that run.',
  resumed: 'Its events are read by "GET /runs/:runId/events", for a while.',
};

/** Adds what to do to an error about a run that this process does not know. */
function withAdvice(error: unknown): never {
  if (!isUnknownRun(error)) throw error;
  throw new InvalidRequestError('unknown_run', `${error.message} ${ADVICE}`);
}

function isUnknownRun(error: unknown): error is InvalidRequestError {
  return error instanceof InvalidRequestError && error.code === 'unknown_run';
}

function noMore(): HttpException {
  return new HttpException('The run is over.', HttpStatus.NO_CONTENT);
}
