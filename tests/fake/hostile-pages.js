// Pages of an agent that means harm: /echo/… says what reached it, /raw/NAME answers bytes that no server should send.
const crlf = lines => `${lines.join('\r\n')}\r\n\r\n`;
const drips = [];
let waiting = [];

const answers = {
    'cookie': crlf(['HTTP/1.1 200 OK', 'Set-Cookie: sandbox-mcp=stolen; Domain=localhost; Path=/', 'Set-Cookie: x=1', 'Content-Length: 2',
        'Content-Security-Policy: connect-src *', 'Access-Control-Allow-Origin: *', 'Access-Control-Allow-Credentials: true', 'Refresh: 0; url=https://elsewhere.example/',
        'Clear-Site-Data: "*"', 'Link: <https://elsewhere.example/>; rel=preload', 'Service-Worker-Allowed: /', 'Alt-Svc: h2="elsewhere.example:443"', 'X-Frame-Options: ALLOWALL',
        'Content-Type: text/html']) + 'ok',
    'away': crlf(['HTTP/1.1 302 Found', 'Location: https://elsewhere.example/', 'Content-Length: 0']),
    'away-too': crlf(['HTTP/1.1 302 Found', 'Location: //elsewhere.example/', 'Content-Length: 0']),
    'away-back': crlf(['HTTP/1.1 302 Found', 'Location: /\\elsewhere.example/', 'Content-Length: 0']),
    'away-twice': crlf(['HTTP/1.1 302 Found', 'Location: /here', 'Location: https://elsewhere.example/', 'Content-Length: 0']),
    'nowhere': crlf(['HTTP/1.1 302 Found', 'Content-Length: 0']),
    'here': crlf(['HTTP/1.1 302 Found', 'Location: /echo/here', 'Content-Length: 0']),
    'password': crlf(['HTTP/1.1 401 Unauthorized', 'WWW-Authenticate: Basic realm="sandbox-mcp"', 'Content-Length: 0']),
    'huge': `HTTP/1.1 200 OK\r\n${`X-Much: ${'m'.repeat(8000)}\r\n`.repeat(40)}\r\n`,
    'lengths': crlf(['HTTP/1.1 200 OK', 'Content-Length: 2', 'Content-Length: 3']) + 'ok!',
    'both': crlf(['HTTP/1.1 200 OK', 'Content-Length: 2', 'Transfer-Encoding: chunked']) + '2\r\nok\r\n0\r\n\r\n',
    'bare': 'HTTP/1.1 200 OK\nContent-Length: 2\n\nok',
    'split': crlf(['HTTP/1.1 200 OK', 'Content-Type: text/html\rSet-Cookie: x=1', 'Content-Length: 2']) + 'ok',
    'garbage': 'SSH-2.0-OpenSSH_9.2\r\n',
    'upgrade': crlf(['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade']) + 'free bytes',
    'flood': crlf(['HTTP/1.1 103 Early Hints']).repeat(40),
    'chunks': crlf(['HTTP/1.1 200 OK', 'Transfer-Encoding: chunked']) + '2\r\nok\r\nzz\r\n',
    'short': crlf(['HTTP/1.1 200 OK', 'Content-Length: 100']) + 'cut',
    'more': crlf(['HTTP/1.1 200 OK', 'Content-Length: 2']) + 'ok' + crlf(['HTTP/1.1 200 OK', 'Set-Cookie: x=1', 'Content-Length: 3']) + 'bad',
    'silent': '',
};

const send = (response, body, type = 'application/json') => response.writeHead(200, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body);

function echo(request, response) {
    let bytes = 0;
    let text = '';
    request.on('data', part => {
        bytes += part.length;
        text = (text + part).slice(0, 1000);
    });
    request.on('end', () => send(response, JSON.stringify({ method: request.method, url: request.url, headers: request.rawHeaders, bytes, text })));
}

// An event now, and the next when it is asked for.
function drip(request, response) {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('data: first\n\n');
    drips.push(response);
    response.on('close', () => waiting.splice(0).forEach(each => send(each, '"gone"')));
}

function flood(response) {
    const part = Buffer.alloc(1 << 20, 'x');
    let left = 200;
    response.writeHead(200, { 'content-type': 'text/plain' });
    const more = () => {
        while (left-- > 0)
            if (!response.write(part))
                return response.once('drain', more);
        response.end();
    };
    more();
}

const pages = {
    '/drip': drip,
    '/drop': (request, response) => { drips.forEach(each => each.write('data: second\n\n')); send(response, '"dropped"'); },
    '/told-gone': (request, response) => { if (drips.every(each => each.destroyed || each.closed)) send(response, '"gone"'); else waiting.push(response); },
    '/flood': (request, response) => flood(response),
    // Takes nothing of what comes.
    '/stuffed': request => request.pause(),
};

module.exports = (request, response) => {
    const [, first, name] = request.url.split('/');
    if (first === 'raw' && name in answers)
        request.socket.write(answers[name], () => name !== 'silent' && request.socket.end());
    else if (request.url in pages)
        pages[request.url](request, response);
    else if (/^\/(event|session|permission|question|project|global\/health)/.test(request.url))
        return false;
    else
        echo(request, response);
    return true;
};

// A socket that says everything again, louder, and begins by what was asked for.
module.exports.upgrade = (request, socket) => {
    const asked = JSON.stringify(request.rawHeaders);
    socket.write(crlf(['HTTP/1.1 101 Switching Protocols', 'Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=', 'Set-Cookie: x=1']) + asked);
    socket.on('data', bytes => socket.write(bytes.toString('latin1').toUpperCase()));
    socket.on('end', () => socket.end('bye'));
    socket.on('error', () => {});
};
