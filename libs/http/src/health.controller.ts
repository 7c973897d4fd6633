import { Controller, HttpStatus, Inject, Res } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { PolicyService } from '@toolloop/core/runs';
import type { Health, ReadyAnswer } from '@toolloop/protocol';
import { HTTP_OPTIONS, type ToolLoopHttpOptions } from './http-options.js';
import { Route } from './route.decorator.js';

/**
 * Tells a load balancer or an orchestrator whether to send requests and whether to restart the
 * process. It asks no one who they are, and tells no more.
 */
@Controller()
export class HealthController {
  constructor(
    @Inject(HTTP_OPTIONS) private readonly options: ToolLoopHttpOptions,
    private readonly policies: PolicyService,
    private readonly adapters: HttpAdapterHost,
  ) {}

  /** Answers while the process lives. A storage that is down is no reason to restart it. */
  @Route('GET /health')
  health(): Health {
    return { status: 'ok' };
  }

  /**
   * Answers whether to send requests: 503 while the application says that it is not ready, and
   * while it is unknown which policy is in force.
   */
  @Route('GET /health/ready')
  async ready(@Res({ passthrough: true }) response: unknown): Promise<ReadyAnswer> {
    const { isReady = true, isLeaving = false, checks } = (await this.options.readiness?.()) ?? {};
    if (isReady && this.policies.isReady) return { status: 'ready', ...checks };
    this.adapters.httpAdapter.status(response, HttpStatus.SERVICE_UNAVAILABLE);
    return { status: isLeaving ? 'leaving' : 'unavailable', ...checks };
  }
}
