import {
  Injectable,
  Module,
  type DynamicModule,
  type ModuleMetadata,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import { Test, type TestingModule, type TestingModuleBuilder } from '@nestjs/testing';
import {
  ConfigurationError,
  type Finding,
  type ToolCallContext,
  ToolCatalog,
  ToolInterceptor,
} from '@toolloop/core';
import type { ToolInvocation } from '@toolloop/core/contracts';
import { toJsonObject } from '@toolloop/core/internal';
import { isObject, type JsonObject } from '@toolloop/protocol';
import { closestTo, differencesOf, differenceText } from './json-difference.js';
import { ExpectationError } from './testing.error.js';

/**
 * A replacement for a tool's method. It receives the validated input and may return what the method
 * may, a live entity included. The type is a method's, so that a fake can name the input class it
 * expects.
 */
export type ToolFake = Faked['fake'];

interface Faked {
  fake(input: unknown, context: ToolCallContext): unknown;
}

/** A call that a tool is to have, with its answer. */
export interface ScriptedToolCall {
  /** The arguments as the tool gets them: validated, with defaults, and nothing else. */
  readonly args: JsonObject;
  /**
   * The value that the tool returns, which may be a live entity; a function is called with the
   * input, and may throw.
   */
  readonly returns: unknown;
}

/**
 * A stand-in of a tool that is strict about its arguments: it answers the calls that it is to have,
 * each once and in any order, and fails for any other with the places that differ. The pipeline's
 * stages come before it, as for every fake.
 *
 * @example
 * const refund = new ScriptedTool([{ args: { orderId: 'o-1', amount: 5 }, returns: 'ok' }]);
 * const module = await ToolLoopTestingModule.create({ imports: [AppModule] })
 *   .override('orders__refund')
 *   .with(refund)
 *   .compile();
 * // … run the loop …
 * refund.assertComplete();
 */
export class ScriptedTool {
  private readonly left: ScriptedToolCall[];
  private failure: ExpectationError | undefined;

  constructor(private readonly script: readonly ScriptedToolCall[]) {
    this.left = [...script];
  }

  /**
   * The stand-in itself, as `with` takes it. @throws {ExpectationError} For a call that it is not
   * to have.
   */
  answer(input: unknown, context: ToolCallContext): unknown {
    const args = isObject(input) ? toJsonObject(input) : {};
    const index = this.left.findIndex((one) => differencesOf(one.args, args).length === 0);
    const [wanted] = index === -1 ? [] : this.left.splice(index, 1);
    if (!wanted) throw (this.failure ??= this.unexpected(args));
    const { returns } = wanted;
    return typeof returns === 'function'
      ? Reflect.apply(returns, undefined, [input, context])
      : returns;
  }

  /**
   * Asserts that the tool had each of its calls, and no other. Call it at the end of a test: the
   * loop tells the model about a call that fails, and no one else.
   *
   * @throws {ExpectationError} The first call that it was not to have, or the calls that it did not
   *   have.
   */
  assertComplete(): void {
    if (this.failure) throw this.failure;
    if (this.left.length > 0)
      throw new ExpectationError(
        `The tool had ${this.script.length - this.left.length} of its ${this.script.length} calls. Not made: ${this.left.map(({ args }) => JSON.stringify(args)).join('; ')}`,
      );
  }

  private unexpected(args: JsonObject): ExpectationError {
    const closest = closestTo(args, this.left, (one) => one.args);
    const wanted = closest
      ? `The closest call that it is to have differs in:\n${differenceText(closest.differences, ['expected', 'called'])}`
      : 'It is to have no further call.';
    return new ExpectationError(`The tool was called with ${JSON.stringify(args)}. ${wanted}`);
  }
}

/**
 * The fakes of one testing module, by declared id: the innermost interceptor, which answers instead
 * of those tools.
 */
class FakedTools extends ToolInterceptor {
  private readonly fakes = new Map<string, ToolFake>();

  get declaredIds(): readonly string[] {
    return [...this.fakes.keys()];
  }

  put(declaredId: string, fake: ToolFake): void {
    this.fakes.set(declaredId, fake);
  }

  override intercept(
    { tool, input, context }: ToolInvocation,
    next: () => Promise<unknown>,
  ): Promise<unknown> {
    const fake = this.fakes.get(tool.declaredId);
    return fake ? Promise.resolve().then(() => fake(input, context)) : next();
  }
}

/**
 * Checks that each fake has a tool. It belongs to the root module, which is bootstrapped when the
 * catalog is complete.
 */
@Injectable()
class FakedToolsCheck implements OnApplicationBootstrap {
  constructor(
    private readonly fakes: FakedTools,
    private readonly catalog: ToolCatalog,
  ) {}

  onApplicationBootstrap(): void {
    const known = new Set(this.catalog.subjects().map(({ declaredId }) => declaredId));
    const wrong = this.fakes.declaredIds.filter((declaredId) => !known.has(declaredId));
    if (wrong.length > 0)
      throw new ConfigurationError(wrong.map((declaredId) => this.toFinding(declaredId)));
  }

  private toFinding(declaredId: string): Finding {
    const closest = this.catalog.suggest(declaredId);
    return {
      at: `override('${declaredId}')`,
      problem: 'No tool has this declared id.',
      remedy:
        closest.length > 0
          ? `Did you mean ${closest.join(' or ')}?`
          : 'No id is similar: is the module with the tool imported?',
    };
  }
}

/** Provides the fakes of a testing module to the pipeline, in every module that imports it. */
@Module({})
class FakedToolsModule {
  static of(fakes: FakedTools): DynamicModule {
    return {
      module: FakedToolsModule,
      global: true,
      providers: [{ provide: FakedTools, useValue: fakes }],
      exports: [FakedTools],
    };
  }
}

/**
 * Builds a testing module in which some tools are replaced, while validation, policy, approval,
 * projection and injection stay the application's own. Overriding a declared id that no tool has
 * fails at `init()` with the closest ids.
 *
 * @example
 * const module = await ToolLoopTestingModule.create({ imports: [AppModule] })
 *   .override('crm__searchCustomers')
 *   .with(() => [ann])
 *   .compile();
 */
export class ToolLoopTestingModule {
  private constructor(
    private readonly fakes: FakedTools,
    /** Nest's own builder, for `overrideProvider` and the like. */
    readonly builder: TestingModuleBuilder,
  ) {}

  static create({
    imports = [],
    providers = [],
    ...metadata
  }: ModuleMetadata): ToolLoopTestingModule {
    const fakes = new FakedTools();
    const builder = Test.createTestingModule({
      ...metadata,
      imports: [...imports, FakedToolsModule.of(fakes)],
      providers: [...providers, FakedToolsCheck],
    });
    return new ToolLoopTestingModule(fakes, builder);
  }

  /**
   * Replaces a tool by its declared id: `crm__searchCustomers`, or `customer_*_getAverageSpend` for
   * every instance. The last override of a tool wins.
   */
  override(declaredId: string): { with(fake: ToolFake | ScriptedTool): ToolLoopTestingModule } {
    return {
      with: (fake) => {
        this.fakes.put(declaredId, fake instanceof ScriptedTool ? fake.answer.bind(fake) : fake);
        return this;
      },
    };
  }

  compile(): Promise<TestingModule> {
    return this.builder.compile();
  }
}
