import type { ModuleMetadata } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import type { TestingModule, TestingModuleBuilder } from '@nestjs/testing';
import { FakedTools } from './faked-tools.js';
import type { ToolFake } from './faked-tools.js';
import { FakedToolsCheck } from './faked-tools.check.js';
import { FakedToolsModule } from './faked-tools.module.js';

/**
 * Builds a testing module in which some tools do something else, while validation, policy, approval, projection and injection stay the
 * application's own. Overriding a declared id that no tool has fails at `init()` with the closest ids.
 */
export class ToolLoopTestingModule {
  private constructor(
    private readonly fakes: FakedTools,
    /** Nest's own, for `overrideProvider` and the like. */
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

  /** Names the tool by its declared id: `crm__searchCustomers`, or `customer_*_getAverageSpend` for every instance. A second override of it wins. */
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
