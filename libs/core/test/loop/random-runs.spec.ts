import { beforeAll, describe, expect, it } from '@jest/globals';
import { Injectable } from '@nestjs/common';
import {
  type LoopEvent,
  LoopEventSink,
  type LoopRequest,
  type LoopResult,
  type RunHandle,
  type ToolLoopService,
} from '@toolloop/core';
import { ToolInjectionStrategy } from '@toolloop/core/strategies';
import { ScriptedModel, eventsOf } from '@toolloop/testing';
import * as fc from 'fast-check';
import { lastValueFrom, takeWhile, tap } from 'rxjs';
import { cases } from '../../../../test/cases.js';
import { expectSound, resultOf } from '../fixtures/played-run.js';
import { doAs, randomRun, type RandomRun, type Trouble } from '../fixtures/random-runs.js';
import { ask, openShop } from '../fixtures/shop.module.js';

/** What every run showed, whoever read it and for how long. */
const shown = new Map<string, LoopEvent[]>();
/** The event at which a sink fails, by run. */
const failing = new Map<string, { readonly critical: boolean; readonly at: number }>();

@Injectable()
class Recorder extends LoopEventSink {
  override write(event: LoopEvent): void {
    const events = shown.get(event.runId) ?? [];
    shown.set(event.runId, [...events, event]);
  }
}

class Saboteur extends LoopEventSink {
  constructor(override readonly critical: boolean) {
    super();
  }

  override write({ runId, sequence }: LoopEvent): void | Promise<void> {
    const told = failing.get(runId);
    if (told?.critical !== this.critical || told.at !== sequence) return undefined;
    if (sequence % 2 === 0) throw new Error('sabotage');
    return Promise.reject(new Error('sabotage'));
  }
}

class Moody extends ToolInjectionStrategy {
  override readonly name = 'moody';
  private count = 0;

  constructor(private readonly at: number) {
    super();
  }

  override evaluate(): { readonly remove: readonly string[] } {
    this.count += 1;
    if (this.count % this.at === 0) throw new Error('moody');
    return { remove: [] };
  }
}

interface Played {
  readonly name: string;
  readonly events: readonly LoopEvent[];
  readonly result: LoopResult;
}

const LIMITS = { runMs: 60, modelIdleMs: 15, toolCallMs: 8, injectedTools: 6, resultBytes: 2000 };

function boom(): never {
  throw new Error('hook');
}

function requestFor({ trouble, script }: RandomRun, name: string): LoopRequest {
  const surfaces = ['auto', 'named', 'grouped', 'dispatcher'] as const;
  return ask({
    surface: surfaces[trouble.at % surfaces.length] ?? 'auto',
    prompt: `I am ${name}.`,
    tenant: name,
    actor: { id: `actor of ${name}` },
    model: new ScriptedModel(script),
    limits: LIMITS,
    context: { act: (key: string) => doAs(key, name) },
    ...(trouble.kind === 'hook' && {
      hooks: { onToolStart: boom, onToolEnd: boom, onIteration: boom },
    }),
    ...(trouble.kind === 'strategy' && { injection: [new Moody(trouble.at)] }),
  });
}

async function playRandom(loop: ToolLoopService, run: RandomRun, name: string): Promise<Played> {
  const { trouble } = run;
  const handle = loop.open(requestFor(run, name));
  if (trouble.kind === 'sink' || trouble.kind === 'critical sink')
    failing.set(handle.runId, { critical: trouble.kind === 'critical sink', at: trouble.at });
  await (run.iterates ? iterate(handle, trouble, name) : subscribe(handle, trouble, name));
  const result = await resultOf(handle);
  return { name, events: shown.get(handle.runId) ?? [], result };
}

async function iterate(handle: RunHandle, trouble: Trouble, name: string): Promise<void> {
  for await (const event of handle) {
    makeTrouble(handle, trouble, name, event);
    if (trouble.kind === 'unsubscribe' && trouble.at === event.sequence) break;
  }
}

async function subscribe(handle: RunHandle, trouble: Trouble, name: string): Promise<void> {
  const isLeft = (event: LoopEvent) =>
    trouble.kind === 'unsubscribe' && trouble.at === event.sequence;
  const events$ = handle.events$.pipe(
    tap((event) => makeTrouble(handle, trouble, name, event)),
    takeWhile((event) => !isLeft(event)),
  );
  await lastValueFrom(events$, { defaultValue: undefined });
}

function makeTrouble(
  handle: RunHandle,
  { kind, at }: Trouble,
  name: string,
  { sequence, type }: LoopEvent,
): void {
  if (sequence !== at || type === 'run-end') return;
  if (kind === 'cancel') handle.cancel();
  if (kind === 'input') handle.addInput(`More of ${name}.`);
}

/**
 * Invariant 8: the customers that a step's results show, in the order of the calls, once each, as
 * many as fit.
 */
function expectInjections({ events, result }: Played): void {
  const known: string[] = [];
  for (let step = 1; step <= result.steps; step += 1) {
    const due = result.toolCalls
      .filter(
        (record) =>
          record.step === step &&
          record.status === 'succeeded' &&
          record.declaredId?.startsWith('probe__customer'),
      )
      .flatMap(({ result: shownResult }) =>
        [shownResult].flat().flatMap((one) => (one as { readonly id: string } | null)?.id ?? []),
      )
      .filter((id, index, all) => all.indexOf(id) === index && !known.includes(id));
    const injected = eventsOf(events, 'tools-injected').filter(
      (event) => event.step === step && event.provider === 'Customer',
    );
    const orders = eventsOf(events, 'tools-injected').filter(
      (event) => event.step <= step && event.provider === 'Order',
    );
    const isFull = eventsOf(events, 'warning').some(
      (event) => event.step === step && event.code === 'injection_cap',
    );
    const ids = injected.map(({ instanceId }) => instanceId ?? '');
    const wasInterrupted =
      result.finishReason === 'aborted' ||
      result.finishReason === 'timeout' ||
      result.finishReason === 'error';
    const isComparable = !wasInterrupted && orders.length === 0;
    expect(ids).toEqual(isComparable ? due.slice(0, isFull ? ids.length : due.length) : ids);
    known.push(...ids);
  }
  // The cap holds for what is offered one by one, and not for the tool that reads on in cut
  // results.
  const ofStrategies = result.injectedTools.filter(
    ({ id }) => id !== 'results__read' && !/^[a-z]+__/.test(id),
  );
  expect(ofStrategies.length).toBeLessThanOrEqual(LIMITS.injectedTools);
  expect(new Set(result.injectedTools.map(({ id }) => id)).size).toBe(result.injectedTools.length);
}

/** Invariant 9: nothing in a run names another. */
function expectAlone({ name, events, result }: Played): void {
  const everything = JSON.stringify([events, result, result.messages]);
  const named = new Set(everything.match(/run-[0-9]+-[0-9]/g));
  expect([...named].filter((one) => one !== name)).toEqual([]);
}

describe('invariants 5, 6, 8 and 9 (property)', () => {
  let loop: ToolLoopService;
  let count = 0;

  beforeAll(async () => {
    const sabotage = [true, false].map((critical) => ({
      provide: `saboteur ${critical}`,
      useValue: new Saboteur(critical),
    }));
    loop = await openShop(new ScriptedModel([]), { providers: [Recorder, ...sabotage] });
  });

  it('hold whatever the models answer, the tools do and goes wrong, three runs at a time', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(randomRun, { minLength: 3, maxLength: 3 }), async (runs) => {
        count += 1;
        const played = await Promise.all(
          runs.map((run, index) => playRandom(loop, run, `run-${count}-${index}`)),
        );
        for (const one of played) {
          expectSound(one);
          expectInjections(one);
          expectAlone(one);
        }
      }),
      { numRuns: cases(250) },
    );
  });

  it('hold for a run that continues from where any other ended', async () => {
    await fc.assert(
      fc.asyncProperty(randomRun, randomRun, async (first, second) => {
        count += 1;
        const before = await playRandom(loop, first, `run-${count}-0`);
        const name = `run-${count}-1`;
        const messages = [
          ...before.result.messages,
          { role: 'user' as const, content: `I am ${name}.` },
        ];
        const handle = loop.open({
          ...requestFor({ ...second, trouble: { kind: 'none', at: 1 } }, name),
          prompt: undefined,
          messages,
        });
        const result = await resultOf(handle);
        expectSound({ events: shown.get(handle.runId) ?? [], result });
      }),
      { numRuns: cases(100) },
    );
  });
});
