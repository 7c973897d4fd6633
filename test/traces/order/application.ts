import { type Type, UseGuards, UseInterceptors, UsePipes } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import {
  ActorDirectory,
  clientTool,
  type EntityContext,
  EntityResolver,
  LlmTool,
  type LoopRequest,
  type LoopResult,
  PendingService,
  type Policy,
  subRunTool,
  type ToolCallContext,
  ToolContext,
  ToolEntityResolver,
  ToolLoopModule,
  ToolLoopService,
  ToolParam,
  ToolProvider,
} from '@toolloop/core';
import { DirectiveService } from '@toolloop/core/directives';
import { ToolLoopStores } from '@toolloop/core/stores';
import { ScriptedModel, type ScriptedTurn } from '@toolloop/testing';
import { Expose } from 'class-transformer';
import type { JSONSchema7 } from 'json-schema';
import { filter, firstValueFrom, Subject } from 'rxjs';
import {
  Witness,
  WitnessedEvents,
  WitnessedHistory,
  WitnessedInterceptor,
  WitnessedLayers,
  WitnessedSpans,
  WitnessedStrategy,
} from './witness.js';
import { WitnessedStores } from './witnessed-stores.js';

export const alice = { actor: { id: 'alice' }, tenant: 'acme' };
export const OPEN: Policy = { version: 'open', allow: ['*'], flow: 'off' };

const KEY = { description: 'The key.' };

class Staff extends ActorDirectory<{ readonly id: string }> {
  override find(id: string): Promise<{ readonly id: string }> {
    return Promise.resolve({ id });
  }
}

/** The classes whose tools are called, all behind Nest's layers. */
function classesOf(witness: Witness): { readonly entity: Type; readonly providers: Type[] } {
  const layers = new WitnessedLayers(witness);
  const saw = (tool: string): string => (witness.saw('method', tool), tool);

  @ToolProvider({ prefix: 'order' })
  @UseGuards(layers)
  @UseInterceptors(layers)
  class Order {
    @Expose() readonly id: string;

    constructor(id: string) {
      this.id = id;
    }

    @LlmTool({ description: 'Cancels it.', effect: 'state_change', reveal: 'all' })
    cancel(): string {
      return saw('cancel');
    }
  }

  @ToolEntityResolver(Order)
  class OrderResolver extends EntityResolver<Order> {
    override resolve(id: string, _context: EntityContext): Order {
      witness.saw('resolver', id);
      return new Order(id);
    }
  }

  @ToolProvider({ namespace: 'desk' })
  @UseGuards(layers)
  @UsePipes(layers)
  @UseInterceptors(layers)
  class DeskTools {
    @LlmTool({ description: 'Finds an order.', effect: 'read_only', output: Order })
    findOrder(@ToolParam('id', KEY) id: string): Order {
      saw('findOrder');
      return new Order(id);
    }

    @LlmTool({
      description: 'Looks.',
      effect: 'read_only',
      reveal: 'all',
      canCall: () => (witness.saw('canCall'), true),
    })
    look(@ToolParam('key', KEY) _key: string): string {
      return saw('look');
    }

    @LlmTool({
      description: 'Writes.',
      effect: 'state_change',
      reveal: 'all',
      preflight: 'mayWrite',
      preview: 'toWrite',
    })
    write(@ToolParam('key', KEY) _key: string): string {
      return saw('write');
    }

    mayWrite(): boolean {
      witness.saw('preflight');
      return true;
    }

    toWrite(): { readonly sentence: string } {
      witness.saw('preview');
      return { sentence: 'It writes.' };
    }

    @LlmTool({ description: 'Asks.', effect: 'read_only', reveal: 'all' })
    async ask(
      @ToolParam('key', KEY) _key: string,
      @ToolContext() context: ToolCallContext,
    ): Promise<string> {
      saw('ask');
      await context.ask({ key: 'many', question: 'How many?', schema: { type: 'integer' } });
      return saw('ask, answered');
    }

    @LlmTool({
      description: 'Chooses.',
      effect: 'state_change',
      reveal: 'all',
      questions: () => {
        witness.saw('questions');
        return [{ key: 'key', question: 'Which one?', schema: { type: 'string' } }];
      },
    })
    choose(@ToolParam('key', KEY) _key: string): string {
      return saw('choose');
    }

    @LlmTool({
      description: 'Books.',
      effect: 'external_side_effect',
      reveal: 'all',
      directive: { type: 'desk.book', subject: '{key}' },
    })
    book(@ToolParam('key', KEY) _key: string): string {
      return saw('book');
    }
  }

  return { entity: Order, providers: [OrderResolver, DeskTools] };
}

const INPUT: JSONSchema7 = {
  type: 'object',
  properties: { key: { type: 'string' } },
  required: ['key'],
};

/** An application with something at every place at which it can take part in a call. */
export class WitnessedApplication {
  private constructor(
    readonly witness: Witness,
    private readonly module: TestingModule,
    private readonly stores: WitnessedStores,
  ) {}

  static async open(script: readonly ScriptedTurn[], policy = OPEN): Promise<WitnessedApplication> {
    const witness = new Witness();
    const stores = new WitnessedStores(witness);
    const { entity, providers } = classesOf(witness);
    const taking = [WitnessedSpans, WitnessedEvents, WitnessedInterceptor].map((type) => ({
      provide: type,
      useValue: new type(witness),
    }));
    const module = await Test.createTestingModule({
      imports: [
        ToolLoopModule.forRoot({
          model: new ScriptedModel(script),
          policy,
          audit: { key: 'k'.repeat(32) },
          directives: { immediateEffects: 'allow' },
          hooks: witness.hooks,
          history: new WitnessedHistory(witness),
          injection: [new WitnessedStrategy(witness)],
          prepareStep: ({ step }) => {
            witness.saw('prepareStep', step);
          },
          stopWhen: ({ step }) => (witness.saw('stopWhen', step), false),
          tools: [
            clientTool({
              id: 'desk__sign',
              description: 'Has it signed.',
              effect: 'state_change',
              input: INPUT,
            }),
            subRunTool({ id: 'desk__delegate', description: 'Delegates.', tools: ['desk__look'] }),
          ],
          providers: [{ provide: ToolLoopStores, useValue: stores }],
        }),
        ToolLoopModule.forFeature({ entities: [entity] }),
      ],
      providers: [...providers, ...taking, Staff],
    }).compile();
    module.useLogger(false);
    await module.init();
    witness.lines.splice(0);
    return new WitnessedApplication(witness, module, stores);
  }

  private get loop(): ToolLoopService {
    return this.module.get(ToolLoopService);
  }

  async run(request: Partial<LoopRequest> = {}): Promise<LoopResult> {
    return this.loop.run({ prompt: 'Go on.', ...alice, ...request });
  }

  /** Answers what waits, and resumes the run. */
  async answer(runId: string, reply: object): Promise<LoopResult> {
    const inbox = this.module.get(PendingService);
    const [asked] = await inbox.inbox(alice);
    if (!asked) throw new Error('Nothing waits.');
    const { kind, id } = asked;
    this.witness.saw('--- the answer');
    const named = kind === 'client' ? { pendingId: id, toolCallId: asked.request.toolCallId } : {};
    await inbox.answer({ ...named, [`${kind}Id`]: id, ...reply }, alice);
    this.witness.saw('--- the run is resumed');
    return (await this.loop.resume(runId, alice)).result;
  }

  /** Runs to the end, and has the directive performed only then. */
  async runAndPerform(): Promise<void> {
    const { events$ } = this.module.get(DirectiveService);
    const performed = firstValueFrom(events$.pipe(filter(({ status }) => status === 'succeeded')));
    const begun = new Subject<void>();
    this.stores.mayPerform = firstValueFrom(begun);
    await this.run();
    this.witness.saw('--- the directive is performed');
    begun.next();
    await performed;
  }

  close(): Promise<void> {
    return this.module.close();
  }
}
