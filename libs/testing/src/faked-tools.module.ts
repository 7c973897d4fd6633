import { Module } from '@nestjs/common';
import type { DynamicModule } from '@nestjs/common';
import { FakedTools } from './faked-tools.js';

/** Lends the fakes of a testing module to the pipeline, wherever that is imported. */
@Module({})
export class FakedToolsModule {
  static of(fakes: FakedTools): DynamicModule {
    return {
      module: FakedToolsModule,
      global: true,
      providers: [{ provide: FakedTools, useValue: fakes }],
      exports: [FakedTools],
    };
  }
}
