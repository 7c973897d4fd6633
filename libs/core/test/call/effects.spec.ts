import { describe, expect, it } from '@jest/globals';
import { setTimeout as wait } from 'node:timers/promises';
import {
  Catch,
  ForbiddenException,
  Injectable,
  RequestTimeoutException,
  UseFilters,
  UseInterceptors,
  type CallHandler,
  type ExceptionFilter,
  type ExecutionContext,
  type NestInterceptor,
  type Type,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  ActorDirectory,
  LlmTool,
  type LoopRequest,
  type Tool,
  ToolError,
  ToolInterceptor,
  type ToolInvocationRecord,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import type { ToolInvocation } from '@toolloop/core/contracts';
import { DirectiveService } from '@toolloop/core/directives';
import {
  AuditStore,
  CallJournal,
  type JournalHold,
  type JournalOutcome,
  MemoryCallJournal,
} from '@toolloop/core/stores';
import { ScriptedModel, call, calls, text } from '@toolloop/testing';
import {
  catchError,
  map,
  of,
  retry,
  throwError,
  timeout,
  TimeoutError,
  type Observable,
} from 'rxjs';
import { until } from '../plugins/directives/bench.js';
import { RecordingLogger } from '../tools/application.js';
import { toolOf, type RawTool } from '../tools/tools.js';
import { Bench, errorOf, type RunOptions } from './bench.js';

/** A journal that tells what it was told. */
class ToldJournal extends MemoryCallJournal {
  readonly told: (JournalOutcome | 'released')[] = [];

  override finish(hold: JournalHold, outcome: JournalOutcome): Promise<void> {
    this.told.push(outcome);
    return super.finish(hold, outcome);
  }

  override release(hold: JournalHold): Promise<void> {
    this.told.push('released');
    return super.release(hold);
  }
}

type Next = () => Promise<unknown>;
type Intercept = (next: Next, invocation: ToolInvocation) => Promise<unknown>;
interface Written extends Omit<RawTool, 'id'> {
  readonly key?: Tool['idempotencyKey'];
}

/**
 * One call of a tool that changes things, behind an interceptor; and the same call once more, as a
 * client repeats it.
 */
async function written(
  intercept: Intercept,
  { key, ...raw }: Written = {},
  options: RunOptions = {},
) {
  const journal = new ToldJournal();
  class Around extends ToolInterceptor {
    override intercept(invocation: ToolInvocation, next: Next): Promise<unknown> {
      return intercept(next, invocation);
    }
  }
  const bench = await Bench.start({ ports: [Around, { provide: CallJournal, useValue: journal }] });
  let effects = 0;
  const invoke: RawTool['invoke'] = (input, context) => {
    effects += 1;
    return raw.invoke ? raw.invoke(input, context) : `effect ${effects}`;
  };
  const one: Tool = {
    ...toolOf({ id: 'pay', effect: 'external_side_effect', ...raw, invoke }),
    ...(key && { idempotencyKey: key }),
  };
  const run = () => bench.run({ tools: [one], policies: [{ allow: ['pay'] }], ...options });
  const outcome = await run().exec('pay');
  return { bench, outcome, journal, effects: () => effects, again: () => run().exec('pay') };
}

const listening: RawTool['invoke'] = (_, { signal }) =>
  new Promise((__, reject) =>
    signal.addEventListener('abort', () => reject(new ToolError('Cancelled.'))),
  );
const patient: Intercept = (next) => next().catch((error: unknown) => Promise.reject(error));
const deafSink = ({ type }: { readonly type: string }): Promise<void> | undefined =>
  type === 'tool-progress' ? Promise.reject(new Error('the sink is gone')) : undefined;
const telling: RawTool['invoke'] = (__, context) => {
  context.progress({ get half() { throw new Error('x'); } }); // prettier-ignore
  return of(1, 2, 'done');
};
const forbidding: Intercept = (next) =>
  next().catch(() => Promise.reject(new ForbiddenException('Ask your manager.')));
const wrapping: Intercept = (next) => next().catch(() => Promise.reject(new ForbiddenException()));
const broke = (): never => {
  throw new ToolError('No money.');
};
const lost = (): never => {
  throw new ToolError('The connection broke.', { retryable: true, isOutcomeUnknown: true });
};
const afterwards: (next: Next) => Promise<unknown> = async (next) => {
  await wait(20);
  return next();
};
const twice: Intercept = async (next) => {
  await next();
  return next();
};
const insisting: Intercept = async (next) => {
  try {
    return await next();
  } catch {
    return next();
  }
};
const slow = (): Promise<string> => wait(40, 'late');
const impatient: Intercept = (next) =>
  Promise.race([next(), wait(5).then(() => Promise.reject(new RequestTimeoutException()))]);
const TOOK_PLACE =
  'The tool ran, but its result cannot be shown. Its effect took place: do not repeat the call.';

describe('invariant 13: a write whose method was not called', () => {
  it('invariant 13: fails as its interceptor says, and may be made later', async () => {
    let isOpen = false;
    const closed: Intercept = (next) =>
      isOpen ? next() : Promise.reject(new ToolError('Closed on Sundays.'));
    const { outcome, journal, effects, again } = await written(closed);
    expect([errorOf(outcome).detail, journal.told, effects()]).toEqual([
      'Closed on Sundays.',
      ['released'],
      0,
    ]);
    isOpen = true;
    expect([(await again()).content, effects()]).toEqual(['effect 1', 1]);
  });

  it('invariant 13: is not called by an interceptor that comes back after the call was told as failed', async () => {
    let late: Promise<unknown> | undefined;
    const hesitant: Intercept = (next) => {
      late = afterwards(next);
      return Promise.reject(new ToolError('Too slow.'));
    };
    const { outcome, effects } = await written(hesitant);
    await expect(late).rejects.toThrow('too late');
    expect([outcome.record.error?.code, effects()]).toEqual(['execution_failed', 0]);
  });

  it('invariant 13: succeeds where an interceptor answers from a cache', async () => {
    const { outcome, effects } = await written(() => Promise.resolve('cached'));
    expect([outcome.record.status, outcome.content, effects()]).toEqual(['succeeded', 'cached', 0]);
  });

  it('invariant 13: is not told as done where the answer of a cache cannot be shown', async () => {
    const { outcome, journal, effects } = await written(() => Promise.resolve(new Date()), {
      reveal: ['name'],
    });
    expect([outcome.record.error?.code, journal.told, effects()]).toEqual([
      'execution_failed',
      ['released'],
      0,
    ]);
    expect(outcome.content).not.toContain('took place');
  });

  it('invariant 13: is attempted again where the interceptor failed for a reason that may pass', async () => {
    let asked = 0;
    const flaky: Intercept = (next) =>
      (asked += 1) < 3 ? Promise.reject(new ToolError('Busy.', { retryAfterMs: 0 })) : next();
    const { outcome, effects } = await written(flaky, { key: () => 'k' }, { retry: true });
    expect([outcome.content, outcome.record.attempt, effects()]).toEqual(['effect 1', 3, 1]);
  });
});

describe('invariant 13: a write whose method is in flight', () => {
  it.each<[string, Intercept]>([
    ['gives up on it', impatient],
    ['answers in its place', (next) => Promise.race([next(), wait(5, 'accepted')])],
    ['does not wait for it', (next) => (void next(), Promise.resolve('accepted'))],
    ['forbids it', (next) => (void next(), Promise.reject(new ForbiddenException()))],
  ])('invariant 13: has an unknown outcome where an interceptor %s', async (_, intercept) => {
    const { outcome, journal, effects } = await written(intercept, { invoke: slow });
    expect(outcome.record).toMatchObject({ status: 'failed', error: { code: 'unknown_outcome' } });
    expect(errorOf(outcome).detail).toContain(
      'It is unknown whether its effect took place. Do not repeat the call',
    );
    await wait(60);
    expect([journal.told, effects()]).toEqual([[], 1]);
  });

  it.each<[string, Written]>([
    ['a key of its own', { key: () => 'k' }],
    ['a stream for a result', { key: () => 'k', invoke: async function* () { yield 1; yield await slow(); } }], // prettier-ignore
  ])('invariant 13: is never attempted again with %s', async (_, raw) => {
    const { outcome, effects } = await written(
      impatient,
      { invoke: slow, ...raw },
      { retry: true },
    );
    await wait(60);
    expect([outcome.record.error?.code, outcome.record.attempt, effects()]).toEqual([
      'unknown_outcome',
      1,
      1,
    ]);
  });

  it('invariant 13: has an unknown outcome where it says itself that it cannot tell, and is not attempted again', async () => {
    const { outcome, journal } = await written(
      patient,
      { invoke: lost, key: () => 'k' },
      { retry: true },
    );
    expect([outcome.record.error?.code, outcome.record.attempt, journal.told]).toEqual([
      'unknown_outcome',
      1,
      [],
    ]);
    expect(errorOf(outcome).detail).toMatch(
      /^The connection broke\. It is unknown whether its effect took place\./,
    );
  });

  it('invariant 13: has an unknown outcome where it rejects for being interrupted', async () => {
    const { outcome } = await written(
      patient,
      { invoke: listening, timeoutMs: 10, key: () => 'k' },
      { retry: true },
    );
    expect([outcome.record.error?.code, outcome.record.attempt]).toEqual(['unknown_outcome', 1]);
  });
});

describe('invariant 13: a write whose method has answered', () => {
  const failing: readonly [string, Intercept, Written, RunOptions][] = [
    [
      'an interceptor throws',
      (next) => next().then(() => Promise.reject(new Error('mapping'))),
      {},
      {},
    ],
    [
      'an interceptor forbids it',
      (next) => next().then(() => Promise.reject(new ForbiddenException())),
      {},
      {},
    ],
    ['an interceptor calls it again', twice, {}, {}],
    [
      'an interceptor hangs',
      (next) => next().then(() => new Promise(() => undefined)),
      { timeoutMs: 10 },
      {},
    ],
    [
      'a stream of an interceptor fails',
      (next) => next().then(() => throwError(() => new Error('late'))),
      {},
      {},
    ],
    ['its projection fails', (next) => next(), { reveal: ['name'], invoke: () => new Date() }, {}],
    ['its getter throws', (next) => next(), { invoke: () => ({ get total() { throw new Error('x'); } }) }, {}], // prettier-ignore
    [
      'it is retried',
      (next) => next().then(() => Promise.reject(new Error('mapping'))),
      { key: () => 'k' },
      { retry: true },
    ],
  ];

  it.each(failing)(
    'invariant 13: has taken place when %s, and only its answer is missing',
    async (_, intercept, raw, options) => {
      const { outcome, journal, effects, again } = await written(intercept, raw, options);
      expect(outcome.record).toMatchObject({
        status: 'failed',
        attempt: 1,
        error: { code: 'invalid_output', safeMessage: TOOK_PLACE },
      });
      expect(journal.told).toMatchObject([
        { status: 'succeeded', failure: { code: 'invalid_output' } },
      ]);
      expect([errorOf(await again()).detail, effects()]).toEqual([TOOK_PLACE, 1]);
    },
  );

  it('invariant 13: succeeds though its progress cannot be shown', async () => {
    const { outcome, journal, effects } = await written(
      (next) => next(),
      { invoke: telling },
      { emit: deafSink },
    );
    expect([outcome.content, journal.told, effects()]).toMatchObject([
      'done',
      [{ status: 'succeeded', content: 'done' }],
      1,
    ]);
  });
});

describe('invariant 13: a write whose method threw', () => {
  it('invariant 13: has failed as it says, in the words of its interceptor', async () => {
    const { outcome, journal } = await written(forbidding, {
      invoke: () => Promise.reject(new ToolError('No money.')),
    });
    expect(outcome.record).toMatchObject({
      status: 'failed',
      error: { code: 'execution_failed', safeMessage: 'Ask your manager.' },
    });
    expect(journal.told).toMatchObject([{ status: 'failed' }]);
  });

  it.each<[string, Intercept]>([
    ['calls it again', insisting],
    ['answers for it', (next) => next().catch(() => 'fine')],
  ])('invariant 13: has failed as it says, though an interceptor %s', async (_, intercept) => {
    const { outcome, effects } = await written(intercept, {
      invoke: () => Promise.reject(new ToolError('No money.')),
    });
    expect([errorOf(outcome).detail, effects()]).toEqual(['No money.', 1]);
  });

  it('invariant 13: is attempted again under its key, since it is not in flight any more', async () => {
    let asked = 0;
    const invoke = (): Promise<string> =>
      (asked += 1) === 1
        ? Promise.reject(new ToolError('Busy.', { retryAfterMs: 0 }))
        : Promise.resolve('done');
    const { outcome } = await written(wrapping, { key: () => 'k', invoke }, { retry: true });
    expect([outcome.content, outcome.record.attempt]).toEqual(['done', 2]);
  });
});

describe('a read', () => {
  it('is attempted again after its interceptor gave up, as before', async () => {
    let asked = 0;
    const once: Intercept = (next, invocation) =>
      (asked += 1) === 1 ? impatient(next, invocation) : next();
    const { outcome } = await written(once, { effect: 'read_only', invoke: slow }, { retry: true });
    expect([outcome.content, outcome.record.attempt]).toEqual(['late', 2]);
  });

  it('may be answered for by its interceptor', async () => {
    const { outcome } = await written((next) => next().catch(() => 'fallback'), {
      effect: 'read_only',
      invoke: () => Promise.reject(new Error('x')),
    });
    expect(outcome.content).toBe('fallback');
  });
});

/** As in Nest's own documentation. */
@Injectable()
class TimeoutInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler<unknown>): Observable<unknown> {
    return next.handle().pipe(
      timeout(30),
      catchError((error: unknown) =>
        throwError(() => (error instanceof TimeoutError ? new RequestTimeoutException() : error)),
      ),
    );
  }
}

@Injectable()
class ThrowingMap implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler<unknown>): Observable<unknown> {
    return next.handle().pipe(
      map(() => {
        throw new ForbiddenException('Not for you.');
      }),
    );
  }
}

@Injectable()
class Retrying implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler<unknown>): Observable<unknown> {
    return next.handle().pipe(retry(3));
  }
}

@Injectable()
class Caching implements NestInterceptor {
  intercept(): Observable<unknown> {
    return of('cached');
  }
}

@Injectable()
class Refusing implements NestInterceptor {
  intercept(): Observable<unknown> {
    return throwError(() => new Error('The cache is cold.'));
  }
}

@Catch()
class CalmFilter implements ExceptionFilter {
  catch(): string {
    return 'All is well.';
  }
}

class People extends ActorDirectory {
  override find(id: string): Promise<unknown> {
    return Promise.resolve({ id });
  }
}

interface Behind {
  readonly around: Type<NestInterceptor>;
  readonly method?: () => unknown;
  readonly directive?: 'ask' | 'repeat';
  readonly key?: boolean;
  readonly request?: Partial<LoopRequest>;
}

/** One run that calls a tool behind Nest's layers. */
async function behind({
  around,
  method = () => 'paid',
  directive: maybeRan,
  key = false,
  request = {},
}: Behind) {
  const effects: string[] = [];
  @Injectable()
  @ToolProvider({ namespace: 'bank' })
  @UseInterceptors(around)
  @UseFilters(CalmFilter)
  class BankTools {
    @LlmTool({
      description: 'Pays.',
      effect: 'external_side_effect',
      reveal: 'all',
      ...(key && { idempotencyKey: ({ id }: { readonly id: string }) => id }),
      ...(maybeRan && { directive: { type: 'pay', subject: '{id}', maybeRan } }),
    })
    pay(@ToolParam('id', { description: 'Which' }) id: string): unknown {
      effects.push(id);
      return method();
    }
  }
  const model = new ScriptedModel([calls(call('bank__pay', { id: 'p-1' })), text('Done.')]);
  const module = await Test.createTestingModule({
    imports: [
      ToolLoopModule.forRoot({
        model,
        policy: { allow: ['*'], flow: 'off' },
        audit: { key: 'k'.repeat(32) },
        directives: { firstDelayMs: 5, longestDelayMs: 10 },
        providers: [{ provide: ActorDirectory, useClass: People }],
      }),
    ],
    providers: [BankTools],
  })
    .setLogger(new RecordingLogger())
    .compile();
  await module.init();
  const result = await module
    .get(ToolLoopService)
    .run({ prompt: 'Pay p-1.', actor: { id: 'ada' }, tenant: 'acme', ...request });
  const record: ToolInvocationRecord | undefined = result.toolCalls[0];
  const service: DirectiveService = module.get(DirectiveService);
  const outcomes = async () =>
    (await module.get(AuditStore).read('acme', { from: 1, limit: 100 })).filter(
      ({ kind }) => kind === 'outcome' || kind === 'denied',
    );
  return { record, effects, service, outcomes, close: () => module.close() };
}

const ada = { actor: { id: 'ada', roles: [] }, tenant: 'acme' };
const unanswered: ((value: string) => void)[] = [];
/** Answers once the spec has it answer: an interceptor has given up on it by then. */
const slowly = (): Promise<string> => new Promise((resolve) => unanswered.push(resolve));

async function answerLate(): Promise<void> {
  for (const answer of unanswered.splice(0)) answer('paid');
  await wait(20);
}

describe("invariant 13: behind Nest's interceptors and filters", () => {
  it('invariant 13: a plain write that the TimeoutInterceptor gave up on has an unknown outcome', async () => {
    const { record, effects, outcomes } = await behind({
      around: TimeoutInterceptor,
      method: slowly,
    });
    expect([record?.error?.code, effects]).toEqual(['unknown_outcome', ['p-1']]);
    expect(record?.error?.safeMessage).not.toContain('All is well.');
    expect(await outcomes()).toMatchObject([{ status: 'unknown' }]);
  });

  it('invariant 13: a keyed write that the TimeoutInterceptor gave up on is not made again beside itself', async () => {
    const { record, effects } = await behind({
      around: TimeoutInterceptor,
      method: slowly,
      key: true,
      request: { onToolError: 'retry' },
    });
    await answerLate();
    expect([record?.error?.code, record?.attempt, effects]).toEqual([
      'unknown_outcome',
      1,
      ['p-1'],
    ]);
  });

  it.each(['ask', 'repeat'] as const)(
    'invariant 13: a directive (%s) that the TimeoutInterceptor gave up on takes place once, and waits for a person',
    async (directive) => {
      const { service, effects, close } = await behind({
        around: TimeoutInterceptor,
        method: slowly,
        directive,
      });
      expect(await until(service, 'unknown_outcome', ada)).toMatchObject({
        attempts: 1,
        failure: { code: 'unknown_outcome' },
      });
      await answerLate();
      expect([effects, (await service.list(ada))[0]?.status]).toEqual([['p-1'], 'unknown_outcome']);
      await close();
    },
  );

  it('invariant 13: a write whose map throws a 403 took place, in the record and in the audit', async () => {
    const { record, effects, outcomes } = await behind({ around: ThrowingMap });
    expect(record).toMatchObject({
      status: 'failed',
      error: { code: 'invalid_output', safeMessage: TOOK_PLACE },
    });
    expect(effects).toEqual(['p-1']);
    expect(await outcomes()).toMatchObject([
      { kind: 'outcome', status: 'succeeded', code: 'invalid_output' },
    ]);
  });

  it('invariant 13: a directive whose map throws has succeeded, and only its answer is missing', async () => {
    const { service, effects, close } = await behind({ around: ThrowingMap, directive: 'ask' });
    expect(await until(service, 'succeeded', ada)).toMatchObject({
      attempts: 1,
      failure: { code: 'invalid_output' },
    });
    expect(effects).toEqual(['p-1']);
    await close();
  });

  it('invariant 13: retry() makes no write again, and what the method threw is what is told', async () => {
    const { record, effects } = await behind({ around: Retrying, method: broke });
    expect([record?.error?.code, record?.error?.safeMessage, effects]).toEqual([
      'execution_failed',
      'All is well.',
      ['p-1'],
    ]);
  });

  it('invariant 13: a directive that is answered from a cache has succeeded, and its method is not called', async () => {
    const { service, effects, close } = await behind({ around: Caching, directive: 'ask' });
    expect(await until(service, 'succeeded', ada)).toMatchObject({ attempts: 1 });
    expect(effects).toEqual([]);
    await close();
  });

  it('invariant 13: a directive whose interceptor fails before the method is tried again, and leaves nothing in doubt', async () => {
    const { service, effects, close } = await behind({ around: Refusing, directive: 'ask' });
    expect(await until(service, 'dead', ada)).toMatchObject({
      attempts: 5,
      failure: { code: 'execution_failed' },
    });
    expect(effects).toEqual([]);
    await close();
  });
});
