import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { type Context, context } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import type { ReadableSpan } from '@opentelemetry/sdk-trace';
import { call, calls, ScriptedModel, text } from '@toolloop/testing';
import { type ObservedApp, observe } from './observed-app.js';

/** Contexts that count how often they are asked for and entered. */
class CountedContexts extends AsyncLocalStorageContextManager {
  looked = 0;
  entered = 0;

  override active(): Context {
    this.looked += 1;
    return super.active();
  }

  override with<Args extends unknown[], Work extends (...args: Args) => ReturnType<Work>>(
    within: Context,
    work: Work,
    self?: ThisParameterType<Work>,
    ...args: Args
  ): ReturnType<Work> {
    this.entered += 1;
    return super.with(within, work, self, ...args);
  }
}

const contexts = new CountedContexts();
let observed: ObservedApp;
beforeAll(async () => {
  observed = await observe();
  context.disable();
  context.setGlobalContextManager(contexts.enable());
});
afterAll(() => observed.close());

interface Cost {
  readonly spans: number;
  readonly attributes: number;
  readonly events: number;
  readonly values: number;
  readonly looked: number;
  readonly entered: number;
}

/** What a run of so many calls asks of OpenTelemetry. */
async function costOf(steps: number): Promise<Cost> {
  observed.take();
  const [looked, entered, valuesBefore] = [
    contexts.looked,
    contexts.entered,
    await valuesRecorded(),
  ];
  const script = [
    ...Array.from({ length: steps }, (_, step) =>
      calls(call('orders__find', { id: String(step) })),
    ),
    text('It is open.'),
  ];
  await observed.loop.run({
    prompt: 'Where is 7?',
    actor: { id: 'alice' },
    tenant: 'acme',
    model: new ScriptedModel(script),
  });
  const spans = observed.take();
  const sum = (of: (span: ReadableSpan) => number): number =>
    spans.reduce((total, span) => total + of(span), 0);
  return {
    spans: spans.length,
    attributes: sum(({ attributes }) => Object.keys(attributes).length),
    events: sum(({ events }) => events.length),
    looked: contexts.looked - looked,
    entered: contexts.entered - entered,
    values: (await valuesRecorded()) - valuesBefore,
  };
}

/** The values that histograms have had. */
async function valuesRecorded(): Promise<number> {
  const { resourceMetrics } = await observed.prometheus.collect();
  let count = 0;
  for (const { metrics } of resourceMetrics.scopeMetrics)
    for (const { dataPoints } of metrics)
      for (const { value } of dataPoints) count += typeof value === 'object' ? value.count : 0;
  return count;
}

it('a step asks OpenTelemetry for two spans with 18 attributes, one event, four values and three looks at the active context', async () => {
  const [few, many] = [await costOf(2), await costOf(4)];
  const perStep = Object.fromEntries(
    Object.entries(many).map(([what, count]) => [what, (count - few[what as keyof Cost]) / 2]),
  );
  const statement = { spans: 1, looked: 1, entered: 1 }; // the tool has a span of its own
  const exported = 3; // each span by itself, in a context that is not traced
  expect(perStep).toEqual({
    spans: 2 + statement.spans,
    attributes: 18,
    events: 1,
    values: 4,
    looked: 3 + statement.looked + exported,
    entered: 2 + statement.entered + exported,
  });
});
