import type { ModuleMetadata, Type } from '@nestjs/common';
import { MODULE_METADATA } from '@nestjs/common/constants.js';
import type { Module } from '@nestjs/core/injector/module.js';
import { isObject, recogniseCopies } from '@toolloop/protocol';
import type { LoopProfile } from '../../contracts/loop-request.js';
import type { RawTool } from '../decorators/raw-tool.js';

/** The options of `forFeature` of one module; found among the providers at bootstrap. */
export class ToolFeature {
  constructor(readonly options: ToolFeatureOptions) {}
}

recogniseCopies('ToolFeature', ToolFeature);

/** The contribution of a feature module to the loop. */
export interface ToolFeatureOptions {
  /**
   * Classes marked `@ToolProvider()` whose instances bring tools. Classes reached through an
   * `output` need not be named.
   */
  readonly entities?: readonly Type[];
  /** Modules that the entities' guards, pipes, interceptors and filters need. */
  readonly imports?: NonNullable<ModuleMetadata['imports']>;
  /** Tools that are no methods of providers: functions and classes of any origin. */
  readonly tools?: readonly RawTool[];
  /**
   * Named loops: what their runs have in common. `@InjectToolLoop('support')` injects one, in any
   * module.
   */
  readonly loops?: Readonly<Record<string, LoopProfile>>;
}

/**
 * Finds the module classes whose `@Module({ imports })` has a feature: its tools are theirs. Nest's
 * own graph does not tell, since a feature is global and so imported by every module there.
 */
export function modulesWith(
  feature: ToolFeature,
  all: Iterable<Module>,
): ToolFeature & { readonly modules: readonly Type[] } {
  const importing = [...all].filter(({ metatype }) =>
    importsOf(metatype).some((imported) => carries(imported, feature)),
  );
  return {
    options: feature.options,
    modules: [...new Set<Type>(importing.map(({ metatype }) => metatype))],
  };
}

function importsOf(module: Type): readonly unknown[] {
  const imports: unknown = Reflect.getMetadata(MODULE_METADATA.IMPORTS, module);
  return Array.isArray(imports) ? imports : [];
}

function carries(imported: unknown, feature: ToolFeature): boolean {
  const providers = isObject(imported) ? imported['providers'] : undefined;
  return (
    Array.isArray(providers) &&
    providers.some((provider) => isObject(provider) && provider['useValue'] === feature)
  );
}
