import { Injectable, Module, type DynamicModule, type ModuleMetadata, type OnApplicationBootstrap } from '@nestjs/common';
import { Test, type TestingModule, type TestingModuleBuilder } from '@nestjs/testing';
import { ConfigurationError, type Finding, type ToolCallContext, ToolCatalog, ToolInterceptor } from '@toolloop/core';
import type { ToolInvocation } from '@toolloop/core/contracts';

interface Faked {
  fake(input: unknown, context: ToolCallContext): unknown;
}

/**
 * A replacement for a tool's method. It receives the validated input and may return what the method may, a live entity included. The type is a
 * method's, so that a fake can name the input class it expects.
 */
export type ToolFake = Faked['fake'];

/** The fakes of one testing module, by declared id: the innermost interceptor, which answers instead of those tools. */
class FakedTools extends ToolInterceptor {
  private readonly fakes = new Map<string, ToolFake>();

  get declaredIds(): readonly string[] {
    return [...this.fakes.keys()];
  }

  put(declaredId: string, fake: ToolFake): void {
    this.fakes.set(declaredId, fake);
  }

  override intercept({ tool, input, context }: ToolInvocation, next: () => Promise<unknown>): Promise<unknown> {
    const fake = this.fakes.get(tool.declaredId);
    return fake ? Promise.resolve().then(() => fake(input, context)) : next();
  }
}

/** Checks that each fake has a tool. It belongs to the root module, which is bootstrapped when the catalog is complete. */
@Injectable()
class FakedToolsCheck implements OnApplicationBootstrap {
  constructor(
    private readonly fakes: FakedTools,
    private readonly catalog: ToolCatalog,
  ) {}

  onApplicationBootstrap(): void {
    const known = new Set(this.catalog.subjects().map(({ declaredId }) => declaredId));
    const wrong = this.fakes.declaredIds.filter((declaredId) => !known.has(declaredId));
    if (wrong.length > 0) throw new ConfigurationError(wrong.map((declaredId) => this.toFinding(declaredId)));
  }

  private toFinding(declaredId: string): Finding {
    const closest = this.catalog.suggest(declaredId);
    return {
      at: `override('${declaredId}')`,
      problem: 'No tool has this declared id.',
      remedy: closest.length > 0 ? `Did you mean ${closest.join(' or ')}?` : 'No id is similar: is the module with the tool imported?',
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
 * Builds a testing module in which some tools are replaced, while validation, policy, approval, projection and injection stay the
 * application's own. Overriding a declared id that no tool has fails at `init()` with the closest ids.
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

  static create({ imports = [], providers = [], ...metadata }: ModuleMetadata): ToolLoopTestingModule {
    const fakes = new FakedTools();
    const builder = Test.createTestingModule({
      ...metadata,
      imports: [...imports, FakedToolsModule.of(fakes)],
      providers: [...providers, FakedToolsCheck],
    });
    return new ToolLoopTestingModule(fakes, builder);
  }

  /** Replaces a tool by its declared id: `crm__searchCustomers`, or `customer_*_getAverageSpend` for every instance. The last override of a tool wins. */
  override(declaredId: string): { with(fake: ToolFake): ToolLoopTestingModule } {
    return {
      with: (fake) => {
        this.fakes.put(declaredId, fake);
        return this;
      },
    };
  }

  compile(): Promise<TestingModule> {
    return this.builder.compile();
  }
}
