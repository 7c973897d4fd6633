import { Injectable, type Type } from '@nestjs/common';
import {
  type LanguageModel,
  LlmTool,
  type LoopEvent,
  type RunHandle,
  ToolInput,
  ToolProvider,
} from '@toolloop/core';
import { openai } from '@toolloop/openai';
import { IsBoolean, IsInt, IsString, MaxLength, Min } from 'class-validator';
import { start, type Surroundings, WHO } from '../application.js';
import {
  INSTRUCTIONS,
  MODEL,
  type NumberedTask,
  type Outcome,
  promptOf,
  rowsOf,
  type TaskArguments,
  type TaskTool,
} from '../task.js';
import type { Driver } from './driver.js';

class SearchInput implements TaskArguments {
  @IsString() @MaxLength(80) query!: string;
  @IsInt() @Min(0) page!: number;
  @IsBoolean() open!: boolean;
}

@Injectable()
@ToolProvider({ namespace: 'bench' })
export class TaskTools {
  @LlmTool({ description: 'Finds customers by name or city.', effect: 'read_only', reveal: 'all' })
  customers(@ToolInput() input: SearchInput): Promise<object> {
    return Promise.resolve(rowsOf('customer', input));
  }

  @LlmTool({ description: 'Finds orders by customer or city.', effect: 'read_only', reveal: 'all' })
  orders(@ToolInput() input: SearchInput): Promise<object> {
    return Promise.resolve(rowsOf('order', input));
  }

  @LlmTool({
    description: 'Finds invoices by customer or city.',
    effect: 'read_only',
    reveal: 'all',
  })
  invoices(@ToolInput() input: SearchInput): Promise<object> {
    return Promise.resolve(rowsOf('invoice', input));
  }
}

/** The way the events of a run are read. */
type Reading = 'events$' | 'iteration' | 'run()';

const READ: Readonly<
  Record<Reading, (handle: RunHandle, onEvent: (event: LoopEvent) => void) => Promise<void>>
> = {
  events$: (handle, onEvent) =>
    new Promise((resolve, reject) =>
      handle.events$.subscribe({ next: onEvent, error: reject, complete: resolve }),
    ),
  iteration: async (handle, onEvent) => {
    for await (const event of handle) onEvent(event);
  },
  'run()': () => Promise.resolve(),
};

/**
 * Toolloop over its OpenAI wire, read in each of its ways, and the tools as the other drivers get
 * them: with the very same schemas.
 *
 * @param surroundings options, modules and providers beside those of the task
 */
export async function toolloopDrivers({
  providers = [],
  ...surroundings
}: Surroundings & { readonly providers?: readonly Type[] } = {}): Promise<{
  readonly drivers: readonly Driver[];
  readonly tools: readonly TaskTool[];
}> {
  const app = await start(
    openai(MODEL, { apiKey: 'none' }),
    [TaskTools, ...providers],
    surroundings,
  );
  const models = new Map<string, LanguageModel>();
  const run = async (task: NumberedTask, baseURL: string, reading: Reading): Promise<Outcome> => {
    const model = models.get(baseURL) ?? openai(MODEL, { apiKey: 'none', baseURL });
    models.set(baseURL, model);
    const handle = app.loop.open({
      prompt: promptOf(task),
      instructions: INSTRUCTIONS,
      model,
      ...WHO,
    });
    let shown = '';
    await READ[reading](handle, (event) => {
      if (event.type === 'text-delta') shown += event.text;
    });
    const { text, toolCalls } = await handle.result;
    return { text: reading === 'run()' ? text : shown, toolCalls: toolCalls.length };
  };
  const drivers = (['events$', 'iteration', 'run()'] as const).map((reading) => ({
    name: `toolloop, ${reading}`,
    speed: 1,
    run: (task: NumberedTask, baseURL: string) => run(task, baseURL, reading),
    close: () => (reading === 'events$' ? app.close() : undefined),
  }));
  const specs = await app.loop.list(WHO);
  const tools = specs.map(({ id, description, inputSchema }): TaskTool => {
    const kind = id.replace(/^bench__/, '').slice(0, -1);
    return {
      name: id,
      description,
      parameters: inputSchema,
      execute: (args) => rowsOf(kind, args),
    };
  });
  return { drivers, tools };
}
