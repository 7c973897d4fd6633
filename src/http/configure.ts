import type { NestExpressApplication } from '@nestjs/platform-express';
import { SETTINGS, type Settings } from '../settings.js';
import { ErrorFilter } from './error.filter.js';

/** What holds for every route, whoever creates the application. */
export function configure(app: NestExpressApplication): void {
  // HSTS and upgrade-insecure-requests would send browsers to https://127.0.0.1, where nobody listens.
  const contentSecurityPolicy = { directives: { upgradeInsecureRequests: null } };
  app.useSecurityHeaders({ contentSecurityPolicy, strictTransportSecurity: false });
  const { allowedOrigins } = app.get<Settings>(SETTINGS);
  if (allowedOrigins.length > 0) app.enableCors({ origin: [...allowedOrigins] });
  app.useBodyParser('json', { limit: '256kb' });
  app.useGlobalFilters(new ErrorFilter());
}
