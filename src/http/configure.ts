import { BadRequestException, ForbiddenException, Inject, Injectable, type NestMiddleware } from '@nestjs/common';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { isObject } from '@toolloop/protocol';
import type { NextFunction, Request, Response } from 'express';
import { SETTINGS, type Settings } from '../settings.js';

/** Sets up what holds for every route, in the started application and in tests. */
export function configure(app: NestExpressApplication): void {
  // HSTS and upgrade-insecure-requests would send browsers to https://127.0.0.1, where no server listens.
  const contentSecurityPolicy = { directives: { upgradeInsecureRequests: null } };
  app.useSecurityHeaders({ contentSecurityPolicy, strictTransportSecurity: false });
  const { allowedOrigins } = app.get<Settings>(SETTINGS);
  if (allowedOrigins.length > 0) app.enableCors({ origin: [...allowedOrigins] });
  app.useBodyParser('json', { limit: '256kb' });
  app.use(refuseDeepBodies);
}

/** Far deeper than any body of the desk, far shallower than the stack of the validation that walks it. */
const MAX_DEPTH = 32;

/**
 * Lets pass a body that validation can walk.
 *
 * @throws BadRequestException for a body that is nested deeper.
 */
function refuseDeepBodies(request: Request<unknown, unknown, unknown>, _response: Response, next: NextFunction): void {
  let level = [request.body].filter(isObject);
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth >= MAX_DEPTH) throw new BadRequestException(`The body is nested deeper than ${MAX_DEPTH} levels.`);
    level = level.flatMap((one) => Object.values(one).filter(isObject));
  }
  next();
}

/**
 * Answers only under its own names, and only to its own pages. Without this, any web page could point a name of its own at 127.0.0.1 (DNS rebinding)
 * and talk to the desk through the visitor's browser.
 */
@Injectable()
export class HostMiddleware implements NestMiddleware {
  constructor(@Inject(SETTINGS) private readonly settings: Settings) {}

  use(request: Request, _response: Response, next: NextFunction): void {
    for (const name of ['host', 'origin']) {
      if ((request.headersDistinct[name] ?? []).length > 1) throw new BadRequestException(`Send one header ${name}, not several.`);
    }
    const host = request.headers.host?.toLowerCase() ?? '';
    if (!this.isOwnHost(host, request.socket.localPort)) {
      throw forbidden('forbidden_host', `This server does not answer as "${host}". Add the host to ALLOWED_HOSTS if it is yours.`);
    }
    const origin = request.headers.origin?.toLowerCase();
    if (origin !== undefined && !this.isOwnOrigin(origin, host)) {
      throw forbidden(
        'forbidden_origin',
        `Pages of "${origin}" may not ask this server. Add the origin to ALLOWED_ORIGINS if it is yours.`,
      );
    }
    next();
  }

  private isOwnHost(host: string, port: number | undefined): boolean {
    // Clients leave the port out where it is the protocol's own.
    const suffix = port === 80 && !host.includes(':') ? '' : `:${port}`;
    return host === `127.0.0.1${suffix}` || host === `localhost${suffix}` || this.settings.allowedHosts.includes(host);
  }

  private isOwnOrigin(origin: string, host: string): boolean {
    return origin === `http://${host}` || this.settings.allowedOrigins.includes(origin);
  }
}

function forbidden(code: string, message: string): ForbiddenException {
  return new ForbiddenException({ code, message });
}
