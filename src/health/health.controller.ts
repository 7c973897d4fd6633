import { Controller, Get } from '@nestjs/common';

/** For whoever watches the process; no token is needed and nothing is told. */
@Controller('health')
export class HealthController {
  @Get()
  health(): { readonly status: 'ok' } {
    return { status: 'ok' };
  }
}
