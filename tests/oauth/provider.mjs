// An authorization server (`oidc-provider`) and an MCP server that accepts its tokens. Prints their
// addresses as a line of JSON. `/mcp` accepts tokens for itself; `/wrong` asks for tokens for itself
// and accepts none, as a server with another audience does. Requests to `/control/...` change what is
// issued: `expire` ends the access tokens, `revoke` all of them.
import http from 'node:http';
import Provider from 'oidc-provider';

const listen = (server) =>
  new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)));

const resources = http.createServer();
const authorization = http.createServer();
const origin = `http://127.0.0.1:${await listen(resources)}`;
const issuer = `http://127.0.0.1:${await listen(authorization)}`;

const provider = new Provider(issuer, {
  cookies: { keys: ['tests'] },
  rotateRefreshToken: true,
  scopes: ['openid', 'offline_access', 'read'],
  ttl: { AccessToken: 3600, Grant: 3600, Interaction: 600, RefreshToken: 3600, Session: 3600, DeviceCode: 600 },
  features: {
    deviceFlow: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, resource) => ({ scope: 'read', audience: resource, accessTokenFormat: 'opaque' }),
      useGrantedResource: () => true,
    },
  },
});
const issued = { access: [], refresh: [] };
provider.on('access_token.saved', (token) => issued.access.push(token));
provider.on('refresh_token.saved', (token) => issued.refresh.push(token));
authorization.on('request', provider.callback());

const send = (response, status, body, headers = {}) => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
};

async function control(action) {
  const tokens = action === 'revoke' ? [...issued.access, ...issued.refresh] : issued.access;
  for (const token of tokens) await token.destroy();
}

function result(message) {
  switch (message.method) {
    case 'initialize':
      return {
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'vault', version: '1' },
      };
    case 'tools/list':
      return { tools: [{ name: 'open', description: 'Opens the vault.', inputSchema: { type: 'object' } }] };
    default:
      return { content: [{ type: 'text', text: 'opened' }] };
  }
}

resources.on('request', async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const { pathname } = new URL(request.url, origin);
  if (pathname.startsWith('/control/')) {
    await control(pathname.slice('/control/'.length));
    return send(response, 200, {});
  }
  const metadata = pathname.match(/^\/\.well-known\/oauth-protected-resource(\/(mcp|wrong))$/);
  if (metadata) {
    return send(response, 200, {
      resource: origin + metadata[1],
      authorization_servers: [issuer],
      scopes_supported: ['read'],
    });
  }
  if (request.method !== 'POST') return send(response, 405, {});
  const value = (request.headers.authorization ?? '').replace(/^Bearer /i, '');
  const token = value && (await provider.AccessToken.find(value));
  if (!token || token.aud !== `${origin}/mcp` || pathname !== '/mcp') {
    const reason = token ? 'the token is for another audience' : 'no valid token';
    return send(response, 401, { error: 'invalid_token', error_description: reason }, {
      'www-authenticate': `Bearer error="invalid_token", resource_metadata="${origin}/.well-known/oauth-protected-resource${pathname}"`,
    });
  }
  const message = JSON.parse(Buffer.concat(chunks).toString());
  if (message.id === undefined) return send(response, 202, {});
  if (message.method === 'server/discover') {
    return send(response, 404, { jsonrpc: '2.0', id: message.id, error: { code: -32601, message: 'unknown' } });
  }
  return send(response, 200, { jsonrpc: '2.0', id: message.id, result: result(message) });
});

console.log(JSON.stringify({ origin, issuer }));
