import type { NestExpressApplication } from '@nestjs/platform-express';

/** Sets up what holds for every route, in the started application and in tests. */
export function configure(app: NestExpressApplication): void {
  // HSTS and upgrade-insecure-requests would send browsers to https://127.0.0.1, where no server
  // listens.
  const contentSecurityPolicy = { directives: { upgradeInsecureRequests: null } };
  app.useSecurityHeaders({ contentSecurityPolicy, strictTransportSecurity: false });
  app.useBodyParser('json', { limit: '256kb' });
}
