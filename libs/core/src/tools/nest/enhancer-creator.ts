import type { CanActivate, ExecutionContext, NestInterceptor, Type } from '@nestjs/common';
import {
  type ApplicationConfig,
  ExternalContextCreator,
  ModulesContainer,
  NestContainer,
} from '@nestjs/core';
import { ExternalExceptionFilterContext } from '@nestjs/core/exceptions/external-exception-filter-context.js';
import { GuardsConsumer, GuardsContextCreator } from '@nestjs/core/guards/index.js';
import { Module } from '@nestjs/core/injector/module.js';
import {
  InterceptorsConsumer,
  InterceptorsContextCreator,
} from '@nestjs/core/interceptors/index.js';
import { PipesConsumer, PipesContextCreator } from '@nestjs/core/pipes/index.js';
import { isObservable, tap } from 'rxjs';
import type { InterceptorNote } from '../../contracts/interceptor.js';
import { isClass } from './provider-classes.js';

/**
 * Makes Nest's compiler of guards, pipes, interceptors and filters, as tools need it: see the
 * classes below.
 */
export function makeCreator(
  modules: ModulesContainer,
  config: ApplicationConfig,
  replacedGuards: readonly Type<CanActivate>[] = [],
): ExternalContextCreator {
  const container = new ToolContainer(modules, config);
  return new ExternalContextCreator(
    new AskedGuards(container, config, replacedGuards),
    new GuardsConsumer(),
    new ToolInterceptors(container, config),
    new NotingConsumer(),
    container.getModules(),
    new PipesContextCreator(container, config),
    new PipesConsumer(),
    new ExternalExceptionFilterContext(container, config),
  );
}

/**
 * The modules of the application with their controllers among the providers, which is where Nest
 * looks for the enhancers of a class that is called from outside of HTTP.
 */
class ToolContainer extends NestContainer {
  private readonly view = new ModulesContainer();

  constructor(modules: ModulesContainer, config: ApplicationConfig) {
    super(config);
    for (const [key, module] of modules) this.view.set(key, this.viewOf(module));
  }

  override getModules(): ModulesContainer {
    return this.view;
  }

  private viewOf(module: Module): Module {
    const view = new Module(module.metatype, this);
    for (const [token, wrapper] of [...module.providers, ...module.controllers])
      view.providers.set(token, wrapper);
    for (const [token, wrapper] of module.injectables) view.injectables.set(token, wrapper);
    return view;
  }
}

/** The guards without those that the identity of the run replaces. */
class AskedGuards extends GuardsContextCreator {
  constructor(
    container: NestContainer,
    config: ApplicationConfig,
    private readonly replacedGuards: readonly Type<CanActivate>[],
  ) {
    super(container, config);
  }

  override getGuardInstance(
    ...given: Parameters<GuardsContextCreator['getGuardInstance']>
  ): CanActivate | null {
    const guard = super.getGuardInstance(...given);
    return this.replacedGuards.some((type) => guard instanceof type) ? null : guard;
  }
}

export const EXCEPTED = 'toolloop:excepted-interceptors';

/** The interceptors of a method without those that it leaves out. */
class ToolInterceptors extends InterceptorsContextCreator {
  override create(...given: Parameters<InterceptorsContextCreator['create']>): NestInterceptor[] {
    const [, callback] = given;
    const except = exceptedOn(callback);
    return super.create(...given).filter((one) => !except.some((type) => isOf(one, type)));
  }
}

/** A class whose method is static stands for itself. */
function isOf(enhancer: unknown, type: Type): boolean {
  return enhancer === type || enhancer instanceof type;
}

function nameOf(enhancer: object): string {
  return isClass(enhancer) ? enhancer.name : enhancer.constructor.name;
}

function exceptedOn(callback: object): readonly Type[] {
  const except: unknown = Reflect.getMetadata(EXCEPTED, callback);
  return Array.isArray(except) ? except.filter(isClass) : [];
}

/** Tells the last argument of a handler what each interceptor answers. */
class NotingConsumer extends InterceptorsConsumer {
  override intercept(
    ...[interceptors, args, ...rest]: Parameters<InterceptorsConsumer['intercept']>
  ): Promise<unknown> {
    const note = noteIn(args);
    return super.intercept(
      interceptors.map((one) => noted(one, note)),
      args,
      ...rest,
    );
  }
}

function noteIn(args: readonly unknown[]): InterceptorNote {
  const note = args.at(-1);
  return (interceptor, answer) =>
    void (typeof note === 'function' && Reflect.apply(note, undefined, [interceptor, answer]));
}

function noted(interceptor: NestInterceptor, note: InterceptorNote): NestInterceptor {
  const name = nameOf(interceptor);
  const intercept: NestInterceptor['intercept'] = async (context: ExecutionContext, next) => {
    const answers = await interceptor.intercept(context, next);
    return isObservable(answers) ? answers.pipe(tap((answer) => note(name, answer))) : answers;
  };
  return { intercept };
}
