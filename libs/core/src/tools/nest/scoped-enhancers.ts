import type { ApplicationConfig, ContextId } from '@nestjs/core';
import { Injector } from '@nestjs/core/injector/injector.js';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';

/**
 * The global guards, pipes, interceptors and filters of request and of transient scope. Nest makes
 * them for the requests of controllers alone: for a tool they are made here, in the context of its
 * run, before Nest looks them up.
 */
export class ScopedEnhancers {
  private readonly injector = new Injector();

  constructor(private readonly config: ApplicationConfig) {}

  /** Returns whether the application has any, so that others pay nothing for them. */
  get areThere(): boolean {
    const { config } = this;
    return (
      config.getGlobalRequestGuards().length > 0 ||
      config.getGlobalRequestPipes().length > 0 ||
      config.getGlobalRequestInterceptors().length > 0 ||
      config.getGlobalRequestFilters().length > 0
    );
  }

  /**
   * Makes them in a context, and with them the enhancers of the provider that they are made for.
   *
   * @throws what a constructor or a factory of them throws
   */
  async make(contextId: ContextId, inquirer: InstanceWrapper): Promise<void> {
    const { config, injector } = this;
    const globals = [
      ...config.getGlobalRequestGuards(),
      ...config.getGlobalRequestPipes(),
      ...config.getGlobalRequestInterceptors(),
      ...config.getGlobalRequestFilters(),
    ];
    await injector.loadEnhancersPerContext(inquirer, contextId, inquirer, [
      ...(inquirer.getEnhancersMetadata() ?? []),
      ...globals,
    ]);
    await injector.waitForDeferredLoads(contextId);
  }
}
