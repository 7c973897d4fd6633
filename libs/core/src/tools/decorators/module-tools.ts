import type { FactoryProvider, Type, ValueProvider } from '@nestjs/common';
import { recogniseCopies } from '@toolloop/protocol';

/** The word of a module on the tools of a class that it provides; found among its providers. */
export class ModuleTools {
  constructor(
    readonly type: Type,
    /** A text, unless a factory of the application made something else. */
    readonly namespace: unknown,
    readonly isOmitted = false,
  ) {}
}

recogniseCopies('ModuleTools', ModuleTools);

/** A namespace that the module's own options decide. */
export type NamespaceFactory = Pick<FactoryProvider<string>, 'inject' | 'useFactory'>;

/**
 * Gives the tools of a class another namespace in one module: of a dynamic module that is imported
 * more than once, or of a class that two modules provide, each with an instance of its own. It
 * stands among the providers of the module, beside the class.
 *
 * @example
 * static register({ name, index }: SearchOptions): DynamicModule {
 *   return {
 *     module: SearchModule,
 *     providers: [
 *       SearchTools,
 *       namespaceTools(SearchTools, `search_${name}`),
 *       { provide: INDEX, useValue: index },
 *     ],
 *   };
 * }
 */
export function namespaceTools(
  type: Type,
  namespace: string | NamespaceFactory,
): ValueProvider<ModuleTools> | FactoryProvider<ModuleTools> {
  const provide = Symbol('toolloop:module-tools');
  if (typeof namespace === 'string') return { provide, useValue: new ModuleTools(type, namespace) };
  const { inject = [], useFactory } = namespace;
  return {
    provide,
    inject,
    useFactory: async (...given: unknown[]) => new ModuleTools(type, await useFactory(...given)),
  };
}

/**
 * Leaves the tools of a class out in one module, which provides it for its own use: those of
 * another module's instance are the application's. It stands among the providers of the module,
 * beside the class.
 *
 * @example
 * @Module({ providers: [OrderTools, omitTools(OrderTools)] })
 * class ReportModule {}
 */
export function omitTools(type: Type): ValueProvider<ModuleTools> {
  return {
    provide: Symbol('toolloop:module-tools'),
    useValue: new ModuleTools(type, undefined, true),
  };
}
